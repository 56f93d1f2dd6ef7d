import { expect, test } from 'vitest'
import { payTo, requirements, usdc } from '../../test/support/payments.ts'
import type { Hex } from '../schema/primitives.ts'
import { differenceFromListing, requirementsOf } from './requirements.ts'

const listed = { amount: 10_000n, network: usdc.network, asset: usdc.address, payTo }

test('D28: what a seller asks for leaves settlement 120 s beyond the agent’s own limit', () => {
  expect(requirementsOf({ amount: 10_000n, timeoutMs: 120_000 }, usdc, payTo)).toEqual(requirements())
  expect(requirementsOf({ amount: 1n, timeoutMs: 1_500 }, usdc, payTo).maxTimeoutSeconds).toBe(122)
})

test('what equals the listing is no difference, in any letter case', () => {
  expect(differenceFromListing(requirements(), listed)).toBeUndefined()
  expect(differenceFromListing(requirements({ asset: usdc.address.toLowerCase() as Hex }), listed)).toBeUndefined()
})

test.each([
  ['a higher amount', { amount: 10_001n }, /asks for 0\.010001 USDC, its listing says 0\.01 USDC/],
  ['a lower amount', { amount: 9_999n }, /0\.009999 USDC/],
  ['another network', { network: 'eip155:8453' }, /payment on eip155:8453/],
  ['another asset', { asset: payTo }, new RegExp(`asset ${payTo}`)],
  ['another payee', { payTo: usdc.address }, /asks to pay 0x036C/],
])('T2: %s is named', (_what, changes, message) => {
  expect(differenceFromListing(requirements(changes), listed)).toMatch(message)
})
