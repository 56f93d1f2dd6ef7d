import { x402ResourceServer } from '@x402/core/server'
import { expect, test } from 'vitest'
import { type Accepted, mismatch } from './accepted.ts'

const exact = {
  ...{ scheme: 'exact', network: 'eip155:84532', amount: '20000', asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e' },
  ...{
    payTo: '0x08c86B491A37C2FFC25072a17c7A97EF2D0357dd',
    maxTimeoutSeconds: 300,
    extra: { name: 'USDC', version: '2' },
  },
}
const channel = { ...exact, scheme: 'batch-settlement', extra: { ...exact.extra, withdrawDelay: 86_400 } }
const asked = [exact, channel]
/** What x402's own server says of the same. */
const isMatched = (accepted: Accepted) =>
  new x402ResourceServer().findMatchingRequirements(asked as never, { x402Version: 2, accepted } as never) !== undefined

test.each<[string, Accepted, string | undefined]>([
  ['what is asked', exact, undefined],
  ['the other entry', channel, undefined],
  ['more in extra', { ...channel, extra: { ...channel.extra, channelState: {} } }, undefined],
  ['another amount', { ...exact, amount: '1' }, 'amount'],
  ['an amount that is a number', { ...exact, amount: 20_000 }, 'amount'],
  ['another payee', { ...exact, payTo: `0x${'12'.repeat(20)}` }, 'payTo'],
  ['another asset', { ...exact, asset: `0x${'12'.repeat(20)}` }, 'asset'],
  ['another network', { ...exact, network: 'eip155:8453' }, 'network'],
  ['another window', { ...exact, maxTimeoutSeconds: 3_600 }, 'maxTimeoutSeconds'],
  ['another token name', { ...exact, extra: { name: 'USD Coin', version: '2' } }, 'extra.name'],
  ['no extra', { ...exact, extra: undefined }, 'extra.name'],
  ['an extra that is a text', { ...exact, extra: 'USDC' }, 'extra.name'],
  ['another delay', { ...channel, extra: { ...channel.extra, withdrawDelay: 1 } }, 'extra.withdrawDelay'],
  [
    'the terms of one entry with the scheme of the other',
    { ...exact, scheme: 'batch-settlement' },
    'extra.withdrawDelay',
  ],
  ['a name of a prototype', { ...exact, extra: Object.create({ name: 'USDC', version: '2' }) }, 'extra.name'],
  ['nothing', {}, 'scheme'],
])('a buyer that accepts %s is told as by the server of x402', (_, accepted, field) => {
  const reason = mismatch(asked, accepted)
  if (field === undefined) expect(reason).toBeUndefined()
  else expect(reason).toBe(`No matching payment requirements: accepted.${field} is not what is asked`)
  expect(isMatched(accepted)).toBe(field === undefined)
})

test('addresses in other letters are the same, and a field that nobody asked for does not matter', () => {
  const { payTo, asset } = exact
  const accepted = { ...exact, payTo: payTo.toLowerCase(), asset: asset.toUpperCase().replace('X', 'x'), note: 'mine' }
  expect(mismatch(asked, accepted)).toBeUndefined()
})
