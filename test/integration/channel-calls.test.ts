/** Whole nodes trade over a payment channel on a real chain: what the chain moved is what both sides have in their books. */
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { batchSettlementAddress } from '../../src/chain/batch-settlement.ts'
import { localAddress } from '../support/loopback.ts'
import { discover, startTestNode, stopTestNodes } from '../support/loopback-node.ts'
import { until } from '../support/until.ts'

let devnet: Devnet
beforeAll(async () => {
  devnet = await startDevnet()
})
afterAll(async () => {
  await stopTestNodes()
  await devnet.stop()
})

const PRICE = 1_000n
/** More than what was deposited first, so that the channel is filled up. */
const AT_ONCE = 50

test('ADR-35 cheap calls go over a channel: many calls, few transactions, equal sums on the chain and in both books', async () => {
  const { rpcUrl, facilitatorUrl, wallets, chain } = devnet
  const key = generatePrivateKey()
  const account = privateKeyToAccount(key).address
  const seller = await startTestNode({ key, rpcUrl, facilitatorUrl, sellerChannels: 'auto' })
  const agent = { name: 'repeat', description: 'repeats its task', price: PRICE }
  await seller.registerAgent(agent, { run: async (input) => String(input) })
  const bootstrap = [localAddress(seller.addresses())]
  const buyer = await startTestNode({
    ...{ key: wallets.buyer.privateKey, rpcUrl, facilitatorUrl, bootstrap },
    channels: 'auto',
  })
  const { id, channel } = await discover(buyer, seller.peerId, 'repeat')
  expect(channel).toMatchObject({ withdraw_delay: 86_400 })

  const call = (n: number) => buyer.execute({ agentId: id, input: `task ${n}`, signal: AbortSignal.timeout(60_000) })
  expect((await call(0)).output).toBe('task 0')
  let made = 1
  await until(
    async () => {
      const { payment } = await call(made++)
      // Settled without a transaction of its own.
      return payment?.settlement === 'settled' && payment.tx_hash === ''
    },
    { timeoutMs: 60_000, everyMs: 200 },
  )
  expect(await chain.balanceOf(batchSettlementAddress)).toBeGreaterThan(0n)
  for (let batch = 1; batch <= 3; batch += 1) {
    const tasks = Array.from({ length: AT_ONCE }, () => made++)
    const results = await Promise.all(tasks.map(call))
    expect(results.map(({ output }) => output)).toEqual(tasks.map((n) => `task ${n}`))
  }
  // Only calls that would have waited for a block, for a deposit or for one more, are paid by themselves.
  expect(await chain.balanceOf(account)).toBeLessThan((PRICE * BigInt(made)) / 2n)
  const sum = (PRICE * BigInt(made)).toString()
  await until(async () => (await seller.stats({ days: 1 })).earned.total_atomic === sum)
  await until(async () => (await buyer.stats({ days: 1 })).paid.total_atomic === sum)
  await buyer.stop()
  // The stop claims what the channel owes and moves it to the wallet.
  await seller.stop()
  expect(await chain.balanceOf(account)).toBe(BigInt(sum))
})
