import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { AgentId } from '../schema/primitives.ts'
import { agentId } from './agent-id.ts'

const seller = '12D3KooWGXd3bVkfFKJ4FnLPVpBqVsnHJCrnTqPCZKD5XQ9R4kbP'

test('an agent id is the first 160 bits of a SHA-256 of seller and name in base32 (D5)', () => {
  const digest = createHash('sha256').update(`${seller}\nÉcho`, 'utf8').digest()
  const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'
  let bits = ''
  for (const byte of digest.subarray(0, 20)) bits += byte.toString(2).padStart(8, '0')
  const expected = bits.match(/.{5}/g)!.map((five) => alphabet[Number.parseInt(five, 2)])
  expect(agentId(seller, 'Écho')).toBe(expected.join(''))
})

test('the two Unicode spellings of a name are one agent (D5)', () => {
  expect(agentId(seller, 'E\u0301cho')).toBe(agentId(seller, '\u00c9cho'))
})

test('another seller or another name is another agent (D5)', () => {
  const ids = [agentId(seller, 'a'), agentId(seller, 'b'), agentId(`${seller}x`, 'a'), agentId(seller, 'A')]
  expect(new Set(ids).size).toBe(4)
})

test('every name gives an id that fits the schema and a path (D5)', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (name) => {
      expect(agentId(seller, name)).toMatch(/^[a-z2-7]{32}$/)
      expect(AgentId.safeParse(agentId(seller, name)).success).toBe(true)
    }),
  )
})
