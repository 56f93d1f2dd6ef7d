/** D45: what was settled for a run that failed is paid back. Real nodes and a real chain, which says who has the money. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { NodeProcess } from '../../devnet/cli-process.ts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { Stats } from '../../src/schema/ledger.ts'
import type { OrderRecord } from '../../src/schema/order.ts'
import type { PaymentRecord } from '../../src/schema/payment-record.ts'
import { ask, call, discovered } from '../support/api-calls.ts'
import { runStoa, startNode } from '../support/cli-node.ts'
import { until } from '../support/until.ts'

let devnet: Devnet
let home: string
const keys = { seller: generatePrivateKey(), buyer: generatePrivateKey() }
const nodes: NodeProcess[] = []
const balanceOf = (who: keyof typeof keys) => devnet.chain.balanceOf(privateKeyToAccount(keys[who]).address)

beforeAll(async () => {
  devnet = await startDevnet()
  home = await mkdtemp(join(tmpdir(), 'stoa-refund-'))
  await devnet.fund(privateKeyToAccount(keys.buyer).address, 1_000_000n)
  await devnet.fund(privateKeyToAccount(keys.seller).address, 0n)
})
afterAll(async () => {
  await Promise.all(nodes.map((node) => node.stop()))
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

const environment = (who: keyof typeof keys) => ({
  ETHEREUM_RPC_URL: devnet.rpcUrl,
  FACILITATOR_URL: devnet.facilitatorUrl,
  NODE_LISTEN_HOST: '127.0.0.1',
  ETHEREUM_PRIVATE_KEY: keys[who],
})
async function start(who: keyof typeof keys, ...flags: string[]): Promise<NodeProcess> {
  const ports = ['--port', '0', '--api-port', '0', '--no-mdns', '--data-dir', join(home, who)]
  const node = await startNode([...ports, ...flags], environment(who))
  nodes.push(node)
  return node
}

test('D45 a settled run that failed is paid back once, and both sides have it in their books', async () => {
  const command = [process.execPath, '-e', 'process.exit(1)']
  const agents = [{ name: 'broken', description: 'd', price: 0.1, command }]
  await mkdir(join(home, 'seller'), { recursive: true, mode: 0o700 })
  await writeFile(join(home, 'seller', 'agents.yaml'), JSON.stringify({ agents }))
  const seller = await start('seller', '--settle-first')
  const buyer = await start('buyer', '--bootstrap', seller.ready.addresses[0]!)
  const { id } = seller.ready.agents[0]!
  const [sold, bought] = [seller.ready.api_url, buyer.ready.api_url]
  await discovered(bought, id)
  const failed = await call(bought, `/agents/${id}/execute`, { body: { task: 'a task' } })
  expect(failed).toMatchObject({ body: { code: 'EXECUTION_FAILED' } })
  const order = async () => (await ask<OrderRecord[]>(bought, '/orders'))[0]!
  await until(async () => (await order()).payment?.book === 'paid')
  const [payment] = await ask<PaymentRecord[]>(sold, '/payments')
  expect([payment?.book, await balanceOf('seller')]).toEqual(['earned', 100_000n])

  const refund = async () => {
    const args = ['payment', 'refund', payment!.payment_id, '--yes', '--json', '--data-dir', join(home, 'seller')]
    return JSON.parse(await runStoa(args, environment('seller'))) as PaymentRecord
  }
  // The chain can still take the settlement back: whoever was paid back by then would have the money twice.
  await expect(refund()).rejects.toThrow('SETTLEMENT_NOT_FINAL')
  await devnet.chain.client.increaseTime({ seconds: 600 })
  await devnet.chain.mine()
  const [first, second] = await Promise.all([refund(), refund()])
  const again = await refund()
  expect(first.book).toBe('refunded')
  expect(new Set([first.refund_tx_hash, second.refund_tx_hash, again.refund_tx_hash]).size).toBe(1)
  expect([await balanceOf('seller'), await balanceOf('buyer')]).toEqual([0n, 1_000_000n])

  await ask(bought, `/payments/${payment!.payment_id}/retry`, { body: {} })
  expect((await order()).payment).toMatchObject({ book: 'refunded', refund_tx_hash: first.refund_tx_hash })
  for (const url of [sold, bought]) {
    const { earned, paid, refunded } = await ask<Stats>(url, '/stats')
    expect([earned.total, paid.total, refunded]).toMatchObject(['0', '0', { amount: '0.1', payments: 1 }])
  }
  expect(await call(sold, `/payments/${payment!.payment_id}/refund`, { body: {} })).toMatchObject({ status: 401 })
})
