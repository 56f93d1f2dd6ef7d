import { expect, test } from 'vitest'
import type { ChannelConfig } from '../../schema/channel.ts'
import { troubleForBuyer, troubleForSeller } from './terms.ts'

const account = (byte: string): `0x${string}` => `0x${byte.repeat(20)}`
const terms = {
  ...{ receiver: account('03'), receiverAuthorizer: account('04'), token: account('05') },
  withdrawDelaySecondsMin: 86_400,
}
const config: ChannelConfig = {
  ...{
    payer: account('01'),
    payerAuthorizer: account('02'),
    receiver: account('03'),
    receiverAuthorizer: account('04'),
  },
  ...{ token: account('05'), withdrawDelay: 86_400, salt: `0x${'00'.repeat(32)}` },
}

test('a seller works only on channels with its own terms', () => {
  expect(troubleForSeller(config, terms)).toBeUndefined()
  expect(troubleForSeller({ ...config, receiver: account('aB'), withdrawDelay: 900 }, terms)).toContain('receiver is')
})

test.each([
  ['receiver', { receiver: account('09') }],
  ['receiverAuthorizer', { receiverAuthorizer: account('09') }],
  ['token', { token: account('09') }],
  ['withdrawDelay', { withdrawDelay: 86_399 }],
  ['payerAuthorizer', { payerAuthorizer: account('00') }],
])('a seller refuses a channel with another %s', (field, change) => {
  expect(troubleForSeller({ ...config, ...change }, terms)).toMatch(new RegExp(`^${field} is `))
})

test('a buyer gives no seller more, or for longer, than it has set', () => {
  const limits = { withdrawDelaySecondsMax: 86_400, depositMax: 1_000_000n }
  expect(troubleForBuyer({ withdrawDelay: 86_400, minDeposit: 1_000_000n }, limits)).toBeUndefined()
  expect(troubleForBuyer({ withdrawDelay: 86_401, minDeposit: 1n }, limits)).toContain('86401 s')
  expect(troubleForBuyer({ withdrawDelay: 900, minDeposit: 1_000_001n }, limits)).toContain('1000001')
})
