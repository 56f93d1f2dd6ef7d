/** D26: a peer that asks for more challenges than a seller keeps for it, on a real host, beside a buyer that asks for its own. */
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { systemClock } from '../../src/lib/clock.ts'
import type { Host } from '../../src/p2p/host.ts'
import { createWallet, type Wallet } from '../../src/payments/wallet.ts'
import type { PaymentEnvelope } from '../../src/schema/payment.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { expectBearable } from '../support/honest-calls.ts'
import { discover, startTestNode, stopTestNodes, type TestNode } from '../support/loopback-node.ts'
import { randomHex, usdc } from '../support/payments.ts'
import { type RawAnswer, RawPeer, said } from '../support/raw-peer.ts'
import { startTestHost } from '../support/test-host.ts'

const CHALLENGES = 112
/** Those of one peer that a seller keeps. */
const KEPT = 64
const PRICE = 10_000n

let devnet: Devnet
let seller: TestNode
let agentId: string
let wallet: Wallet
const hosts: Host[] = []

beforeAll(async () => {
  devnet = await startDevnet()
  const { rpcUrl, facilitatorUrl } = devnet
  seller = await startTestNode({
    ...{ key: generatePrivateKey(), rpcUrl, facilitatorUrl, peerRequestsPerSecond: 10_000 },
  })
  const agent = { description: 'says it again', model: 'builtin/echo' }
  agentId = (await seller.registerAgent({ ...agent, name: 'echo', price: PRICE }, { persist: false })).id
  await seller.registerAgent({ ...agent, name: 'free', price: 0n }, { persist: false })
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

type Challenged = { correlation_id: string; payment: PaymentEnvelope }
const body = Buffer.from('hello').toString('base64')
const send = (peer: RawPeer, { correlation_id, payment }: Challenged): Promise<RawAnswer> =>
  peer.ask('x402.paid_request', { correlation_id, payment, body })

test('D26 T4 112 challenges, then 112 payments: those that gave way are 2003 and retryable, and pay under a new challenge', async () => {
  const [peer, other] = [await connect(), await connect()]
  const now = systemClock.now()
  const others = await other.pay(agentId, wallet, now)
  const asked: Challenged[] = []
  for (let count = 0; count < CHALLENGES; count++) asked.push(await peer.pay(agentId, wallet, now))
  const answers: RawAnswer[] = []
  for (const one of asked) answers.push(await send(peer, one))
  const gone = answers.slice(0, CHALLENGES - KEPT)
  for (const answer of gone) {
    expect(answer?.message).toMatchObject({ error_code: 2003, error_name: 'PAYMENT_NONCE_EXPIRED', retryable: true })
  }
  expect(answers.slice(gone.length).map(said)).toEqual(Array.from({ length: KEPT }, () => 'hello'))

  // "Request a new one": the same authorization, which nobody has charged.
  const correlation_id = randomUUID()
  const anew = await peer.request(agentId, '', { correlation_id })
  const payment = { ...asked[0]!.payment, server_nonce: anew?.message.challenge_nonce as Hex }
  expect(said(await send(peer, { correlation_id, payment }))).toBe('hello')

  // Nobody else's challenge has given way.
  expect(said(await send(other, others))).toBe('hello')
})

test('D26 the limit stands in the description of the protocol', async () => {
  const page = await readFile(new URL('../../docs/protocol.md', import.meta.url), 'utf8')
  expect(page).toContain(`${KEPT} open challenges of a peer`)
  expect(page).toMatch(/gave way to newer ones \| 2003/)
})

test('D26 a peer that asks for endless challenges leaves an honest buyer’s calls as quick as before', {
  retry: 2,
}, async () => {
  const buyer = await startTestNode({ key: randomHex(), bootstrap: [seller.addresses()[0]!] })
  const { id } = await discover(buyer, seller.peerId, 'free')
  const call = async () => {
    const { output } = await buyer.execute({ agentId: id, input: 'hello', signal: AbortSignal.timeout(60_000) })
    expect(output).toBe('hello')
  }
  const attacker = await connect()
  await expectBearable(call, async () => {
    for (let count = 0; count < 200; count++) {
      expect((await attacker.request(agentId, 'x'))?.type).toBe('x402.payment_required')
    }
  })
})
