import { expect, test } from 'vitest'
import { newOnes, wordsOf } from './notice-words.ts'

const approval = (id: string) => ({ id })

test('each purchase that waits is told once, and those that waited before the first look are not', () => {
  const seen = new Set<string>()
  expect(newOnes([approval('a')], seen, true)).toEqual([])
  expect(newOnes([approval('b'), approval('a')], seen, false)).toEqual([approval('b')])
  expect(newOnes([approval('b')], seen, false)).toEqual([])
})

test('a notice names the agent and the amount, and not the task', () => {
  expect(wordsOf({ agent_name: 'Poet', amount: '0.5' })).toEqual([
    'A purchase waits for your approval',
    'Poet, 0.50 USDC',
  ])
})
