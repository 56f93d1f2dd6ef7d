/** T6 between whole nodes on the real chain: a wallet that is emptied buys no second run. */
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { addresses } from '../../devnet/contracts.ts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { ask, discovered } from '../support/api-calls.ts'
import { signPayment, transferCalldata } from '../support/signed-payment.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'

const PRICE = 50_000n
let devnet: Devnet
const nodes: TestNode[] = []

beforeAll(async () => {
  devnet = await startDevnet()
})
afterEach(() => Promise.all(nodes.splice(0).map((node) => node.stop())))
afterAll(() => devnet.stop())

/** A seller, and a buyer whose wallet holds two runs. */
async function market(seller: { checkFundsFromAtomic?: bigint }) {
  const selling = await startTestNode({ devnet, walletKey: devnet.wallets.seller.privateKey, seller })
  nodes.push(selling)
  const echo = { name: 'echo', description: 'Repeats the task.', price: PRICE, model: 'builtin/echo' }
  const { id } = await selling.node.registerAgent(echo, { persist: false })
  const key = generatePrivateKey()
  await devnet.fund(privateKeyToAddress(key), 2n * PRICE)
  const buying = await startTestNode({ devnet, walletKey: key, bootstrap: [selling.node.addresses()[0]!] })
  nodes.push(buying)
  await discovered(buying.url, id)
  const buy = () =>
    buying.node.execute({ agentId: id, input: 'task', awaitsSettlement: true, signal: AbortSignal.timeout(60_000) })
  return { selling, buy, key }
}

/** The owner of a wallet takes out what is in it. */
async function empty(key: Hex): Promise<void> {
  const amount = await devnet.chain.balanceOf(privateKeyToAddress(key))
  const away = signPayment({ payerKey: key, payTo: privateKeyToAddress(generatePrivateKey()), amount })
  await devnet.chain.submit({ to: addresses.usdc, data: transferCalldata(await away) })
  expect(await devnet.chain.balanceOf(privateKeyToAddress(key))).toBe(0n)
}
const runsOf = async ({ url }: TestNode) => (await ask<unknown[]>(url, '/executions')).length
const settlementOf = async ({ url }: TestNode) =>
  (await ask<{ settlement: { pending: number; failed: number } }>(url, '/status')).settlement

describe('T6 a wallet that is emptied after its first purchase', () => {
  test('has nothing run by a seller that looks at the chain first', async () => {
    const { selling, buy, key } = await market({ checkFundsFromAtomic: PRICE })
    expect((await buy()).payment).toMatchObject({ settlement: 'settled' })
    await empty(key)
    await expect(buy()).rejects.toMatchObject({ code: 'PAYMENT_INVALID' })
    expect([await runsOf(selling), (await settlementOf(selling)).failed]).toEqual([1, 0])
  })

  // Until D50 such a seller did one run for nothing. The chain now tries every transfer before the agent runs.
  test('D50: has nothing run by a seller with an RPC that compares no balance for so small an amount', async () => {
    const { selling, buy, key } = await market({})
    await buy()
    await empty(key)
    await expect(buy()).rejects.toThrow(/the chain refuses this transfer.*exceeds balance; nothing was charged/)
    expect([await runsOf(selling), (await settlementOf(selling)).failed]).toEqual([1, 0])
  })
})
