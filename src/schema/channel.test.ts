import { expect, test } from 'vitest'
import { channelVectors } from '../../test/support/channel-vectors.ts'
import { ChannelAmount, ChannelConfig } from './channel.ts'

const zero = `0x${'0'.repeat(40)}`
const config = channelVectors.channels[0]!.config

test.each(channelVectors.channels)('the terms of channel $name are terms', (vector) => {
  expect(ChannelConfig.parse(vector.config)).toEqual(vector.config)
})

test.each(['0', '1', '340282366920938463463374607431768211455'])(
  '%s is an amount, and is written as it was read',
  (text) => {
    expect(ChannelAmount.encode(ChannelAmount.decode(text))).toBe(text)
  },
)

test.each([
  ...['340282366920938463463374607431768211456', '-1', '01000', '0x3e8', '1e3', ' 1', '1 ', '', '1.0', '+1', 'abc'],
  '1'.repeat(40),
])('hazard 4.20: %j is no amount of a channel', (text) => {
  expect(ChannelAmount.safeDecode(text).success).toBe(false)
})

test.each([-1n, 2n ** 128n])('%d is no amount to write', (amount) => {
  expect(ChannelAmount.safeEncode(amount).success).toBe(false)
})

test.each(['payer', 'receiver', 'receiverAuthorizer', 'token'])('nobody cannot be the %s', (field) => {
  const parsed = ChannelConfig.safeParse({ ...config, [field]: zero })
  expect(parsed.error?.issues).toMatchObject([{ path: [field], message: expect.stringContaining('zero address') }])
})

test.each([
  [899, false],
  [900, true],
  [2_592_000, true],
  [2_592_001, false],
  [1_000.5, false],
])('a delay of %d s: %j', (withdrawDelay, isAllowed) => {
  expect(ChannelConfig.safeParse({ ...config, withdrawDelay }).success).toBe(isAllowed)
})
