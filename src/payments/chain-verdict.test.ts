import { expect, test } from 'vitest'
import { FakeSettlement } from '../../test/support/fake-settlement.ts'
import { payTo, randomHex, signed, testWallet, usdc } from '../../test/support/payments.ts'
import { askChain, askChainAfter } from './chain-verdict.ts'

const now = Date.UTC(2026, 0, 1)

function setup() {
  const settlement = new FakeSettlement()
  const { authorization } = signed(now).envelope.payload!
  const ask = (named?: `0x${string}`) => askChain({ asset: usdc.address, authorization, named }, settlement.chain)
  const set = (use: Parameters<FakeSettlement['setUse']>[2]) =>
    settlement.setUse(authorization.from, authorization.nonce, use)
  return { settlement, authorization, ask, set }
}

test('an unused authorization is unpaid', async () => {
  expect(await setup().ask(randomHex())).toEqual({ kind: 'unpaid' })
})

test('T13: a transfer of that amount to that payee is the payment, whatever hash was named', async () => {
  const { settlement, authorization, ask } = setup()
  const txHash = settlement.pay(authorization)
  expect(await ask()).toEqual({ kind: 'paid', txHash })
  expect(await ask(randomHex())).toEqual({ kind: 'paid', txHash })
})

test.each([
  ['another payee', { to: testWallet(3).address, value: 10_000n }],
  ['another amount', { to: payTo, value: 1n }],
])('T6: a nonce spent on %s never pays', async (_what, transfer) => {
  const { ask, set } = setup()
  set({ state: 'used', txHash: randomHex(), transfer })
  expect(await ask()).toMatchObject({ kind: 'never', reason: expect.stringContaining('another transfer') })
})

test('T6: a canceled authorization never pays', async () => {
  const { ask, set } = setup()
  set({ state: 'canceled' })
  expect(await ask()).toMatchObject({ kind: 'never' })
})

test('T15: a spent nonce without its transaction is unknown, unless the one that was named proves itself', async () => {
  const { settlement, ask, set } = setup()
  set({ state: 'used', txHash: undefined })
  expect(await ask()).toMatchObject({ kind: 'unknown' })
  expect(await ask(randomHex())).toMatchObject({ kind: 'unknown' })
  const named = randomHex()
  settlement.chain.transferOf = async (txHash) => (txHash === named ? { to: payTo, value: 10_000n } : undefined)
  expect(await ask(named)).toEqual({ kind: 'paid', txHash: named })
  settlement.chain.transferOf = async () => ({ to: payTo, value: 9_999n })
  expect(await ask(named)).toMatchObject({ kind: 'never' })
  settlement.chain.transferOf = async () => false
  expect(await ask(named)).toMatchObject({ kind: 'unknown' })
})

test('T15: a chain that cannot be asked is unknown, with the reason', async () => {
  const { settlement, ask } = setup()
  settlement.chainIsDown = true
  expect(await ask()).toEqual({ kind: 'unknown', reason: 'the RPC is down' })
})

test('T13 after the window: unpaid is said of a block alone that lies past it by a margin', async () => {
  const { settlement, authorization } = setup()
  const after = () => askChainAfter({ asset: usdc.address, authorization }, settlement.chain)
  const endMs = Number(authorization.validBefore) * 1000
  settlement.blockTimeMs = endMs + 30_000
  expect(await after()).toMatchObject({ kind: 'unknown' })
  settlement.blockTimeMs = endMs + 30_001
  expect(await after()).toEqual({ kind: 'unpaid' })
})
