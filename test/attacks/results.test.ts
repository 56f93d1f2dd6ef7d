/** D32: questions for a result, honest and not, on real hosts. */
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { systemClock } from '../../src/lib/clock.ts'
import type { Host } from '../../src/p2p/host.ts'
import { createWallet, type Wallet } from '../../src/payments/wallet.ts'
import type { PaymentEnvelope } from '../../src/schema/payment.ts'
import { expectBearable } from '../support/honest-calls.ts'
import { startTestNode, stopTestNodes, type TestNode } from '../support/loopback-node.ts'
import { randomHex, signed, usdc } from '../support/payments.ts'
import { RawPeer, said } from '../support/raw-peer.ts'
import { startTestHost } from '../support/test-host.ts'

let devnet: Devnet
let seller: TestNode
let wallet: Wallet
const ids: Record<string, string> = {}
const hosts: Host[] = []

beforeAll(async () => {
  devnet = await startDevnet()
  const { rpcUrl, facilitatorUrl } = devnet
  seller = await startTestNode({
    ...{ key: generatePrivateKey(), rpcUrl, facilitatorUrl, peerRequestsPerSecond: 10_000 },
  })
  const paid = { description: 'd', price: 10_000n }
  for (const agent of [
    { ...paid, name: 'echo', model: 'builtin/echo' },
    { ...paid, name: 'json-query', model: 'builtin/json-query' },
    { ...paid, name: 'free', model: 'builtin/echo', price: 0n },
  ]) {
    ids[agent.name] = (await seller.registerAgent(agent, { persist: false })).id
  }
  wallet = createWallet(randomHex(), usdc)
  await devnet.fund(wallet.address, 100_000_000n)
})
afterAll(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()))
  await stopTestNodes()
  await devnet?.stop()
})

async function connect(): Promise<RawPeer> {
  const host = await startTestHost()
  hosts.push(host)
  return RawPeer.open(host, { peerId: seller.peerId, addrs: seller.addresses() })
}

async function buy(peer: RawPeer, agentId: string, task: string) {
  const { correlation_id, payment } = await peer.pay(agentId, wallet, systemClock.now())
  const body = Buffer.from(task).toString('base64')
  return { payment, answer: await peer.ask('x402.paid_request', { correlation_id, payment, body }) }
}
const askResult = (peer: RawPeer, agentId: string, payment: PaymentEnvelope) =>
  peer.request(agentId, '', { method: 'result', payment })

test('D32 the answer to a question right after the response names the same transaction', async () => {
  const peer = await connect()
  for (let time = 0; time < 10; time++) {
    const { payment, answer } = await buy(peer, ids.echo!, `task ${time}`)
    const again = await askResult(peer, ids.echo!, payment)
    expect([said(answer), said(again)]).toEqual([`task ${time}`, `task ${time}`])
    expect(answer?.message.tx_hash).toMatch(/^0x[0-9a-f]{64}$/)
    expect(again?.message.tx_hash).toBe(answer?.message.tx_hash)
  }
})

test('D32 a run that failed is 3000 and not retryable, at first and whenever its result is asked for', async () => {
  const peer = await connect()
  const { payment, answer } = await buy(peer, ids['json-query']!, 'this is no JSON')
  const failed = { error_code: 3000, error_name: 'EXECUTION_FAILED', retryable: false }
  expect(answer?.message).toMatchObject(failed)
  for (let time = 0; time < 3; time++) {
    expect((await askResult(peer, ids['json-query']!, payment))?.message).toMatchObject(failed)
  }
  expect(await devnet.chain.authorizationState(wallet.address, payment.payload!.authorization.nonce)).toBe(false)
})

test('D32 T31 endless questions for results of others leave an honest buyer’s calls as quick as before', {
  retry: 2,
}, async () => {
  const [honest, attacker] = [await connect(), await connect()]
  const { payment: others } = await buy(honest, ids.echo!, 'of the honest one')
  const call = async () => expect(said(await honest.request(ids.free!, 'hello'))).toBe('hello')
  const unseen = signed(systemClock.now(), { wallet: createWallet(randomHex(), usdc) }).envelope
  await expectBearable(call, async () => {
    for (let count = 0; count < 50; count++) {
      expect(said(await askResult(attacker, ids.echo!, others))).toBe('PAYMENT_INVALID')
      expect(said(await askResult(attacker, ids.echo!, unseen))).toBe('PAYMENT_REQUIRED')
    }
  })
})
