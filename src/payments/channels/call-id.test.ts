import { keccak256, toHex } from 'viem'
import { expect, test } from 'vitest'
import { channelCallId } from './call-id.ts'

test('ADR-35 the id of a call is that of its channel and its correlation id', () => {
  const channel = `0x${'ab'.repeat(32)}` as const
  const id = '0f8fad5b-d9cb-469f-a165-70867728950e'
  const bytes = Buffer.concat([
    Buffer.from('ab'.repeat(32), 'hex'),
    Buffer.from('0f8fad5bd9cb469fa16570867728950e', 'hex'),
  ])
  expect(channelCallId(channel, id)).toBe(keccak256(toHex(bytes)))
  expect(channelCallId(channel, id.toUpperCase())).toBe(channelCallId(channel, id))
})
