import { expect, test } from 'vitest'
import { newOnes, wordsOf } from './notice-words.ts'

const approval = (id: string) => ({ id })

test('each waiting purchase is announced once, except purchases that waited before the page opened', () => {
  const seen = new Set<string>()
  expect(newOnes([approval('a')], seen, true)).toEqual([])
  expect(newOnes([approval('b'), approval('a')], seen, false)).toEqual([approval('b')])
  expect(newOnes([approval('b')], seen, false)).toEqual([])
})

test('a notification names the agent and the amount, but not the task', () => {
  expect(wordsOf({ agent_name: 'Poet', amount: '0.5' })).toEqual([
    'A purchase waits for your approval',
    'Poet, 0.50 USDC',
  ])
})
