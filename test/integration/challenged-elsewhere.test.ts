/** ADR-31 T4 T5: a buyer is asked for payment by one process of a seller, and pays another one. The chain is the judge. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { agentId } from '../../src/agents/agent-id.ts'
import { systemClock } from '../../src/lib/clock.ts'
import type { Host } from '../../src/p2p/host.ts'
import { createWallet, type Wallet } from '../../src/payments/wallet.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { all } from '../../src/store/query.ts'
import { askServer } from '../support/ledger-engine.ts'
import { killNodeProcesses, type NodeProcess } from '../support/node-process.ts'
import { randomHex, usdc } from '../support/payments.ts'
import { RawPeer, said } from '../support/raw-peer.ts'
import { openSellerProcesses } from '../support/seller-processes.ts'
import { startTestHost } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
const WAIT = { timeoutMs: 60_000, everyMs: 100 }
const body = Buffer.from('a task').toString('base64')
let devnet: Devnet
let host: Host
let wallet: Wallet

beforeAll(async () => {
  devnet = await startDevnet()
  host = await startTestHost()
  wallet = createWallet(randomHex(), usdc)
  await devnet.fund(wallet.address, 100n * PRICE)
})
afterAll(async () => {
  await killNodeProcesses()
  await host?.stop()
  await devnet?.stop()
})

/** Two processes of one seller. Each run is noted in one file. */
async function openShop() {
  const shop = await openSellerProcesses(
    (name, marks) => {
      const script = `read -r task; echo "$task" >> "$0"; printf "%s by ${name}" "$task"`
      const command = ['/bin/sh', '-c', script, join(marks, 'runs')]
      return [{ name: 'who', description: 'says who it is', price: 0.01, command }]
    },
    { devnet },
  )
  const { seller, account, address, start, marks } = shop
  const [a, b] = [await start('a'), await start('b')]
  return {
    ...{ a, b, address, account, id: agentId(seller, 'who') },
    connect: ({ ready }: NodeProcess) => RawPeer.open(host, { peerId: seller, addrs: ready.addresses }),
    runs: async () => (await readFile(join(marks, 'runs'), 'utf8').catch(() => '')).split('\n').filter(Boolean),
  }
}

test('the process that asked is killed: the other one takes the payment, and it buys one run', async () => {
  const { a, b, id, account, address, connect, runs } = await openShop()
  const first = await connect(a)
  const asked = await first.pay(id, wallet, systemClock.now())
  const changed = { ...asked.payment, server_nonce: `0xffff${asked.payment.server_nonce.slice(6)}` as Hex }
  a.child.kill('SIGKILL')
  await a.exited

  const second = await connect(b)
  const { correlation_id } = asked
  expect(said(await second.ask('x402.paid_request', { correlation_id, payment: changed, body }))).toBe(
    'PAYMENT_NONCE_MISMATCH',
  )
  const stranger = await startTestHost()
  const elsewhere = await RawPeer.open(stranger, { peerId: b.ready.peer_id, addrs: b.ready.addresses })
  expect(said(await elsewhere.ask('x402.paid_request', { ...asked, body }))).toBe('PAYMENT_NONCE_MISMATCH')
  await stranger.stop()

  expect(said(await second.ask('x402.paid_request', { ...asked, body }))).toBe('a task by b')
  expect(said(await second.ask('x402.paid_request', { ...asked, body }))).toBe('PAYMENT_NONCE_USED')
  const settled = all<{ n: number }>("SELECT count(*) AS n FROM payments WHERE state = 'settled'")
  await until(async () => (await askServer(address, settled))[0]!.n === 1, WAIT)
  expect(await runs()).toEqual(['a task'])
  expect(await devnet.chain.balanceOf(account)).toBe(PRICE)
})
