/** T7, T23: sellers that keep a buyer waiting, before they are paid and after it, beside a seller that answers. */
import { randomUUID } from 'node:crypto'
import type { Stream } from '@libp2p/interface'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { type Chain, createChain } from '../../src/chain/chain.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import type { Host } from '../../src/p2p/host.ts'
import { createFacilitator } from '../../src/payments/facilitator.ts'
import { createWallet, type Wallet } from '../../src/payments/wallet.ts'
import { encodeTextFrame } from '../../src/protocols/frame.ts'
import type { AnyX402Message } from '../../src/protocols/x402/messages.ts'
import type { Listing } from '../../src/schema/listing.ts'
import { MARKETPLACE_PROTOCOL } from '../../src/schema/marketplace.ts'
import { X402_PROTOCOL } from '../../src/schema/x402.ts'
import { startAttacker } from '../support/attack.ts'
import { HandClock } from '../support/hand-clock.ts'
import { expectBearable } from '../support/honest-calls.ts'
import { startTestNode, stopTestNodes, type TestNode } from '../support/loopback-node.ts'
import { payTo, randomHex, requirements, usdc } from '../support/payments.ts'
import { ScriptedSeller, type ScriptedStream } from '../support/scripted-seller.ts'
import { TestBuyer } from '../support/test-buyer.ts'
import { startTestHost } from '../support/test-host.ts'
import { until } from '../support/until.ts'

/** What the buyer allows here: half a minute each, otherwise. A machine with other tests on it opens a stream slowly. */
const LIMIT_MS = 3_000
const AFTER_WINDOW_MS = 500
/** A caller that would wait much longer than that. */
const PATIENCE_MS = 60_000
const PRICE = 10_000n
/** Long enough to be settled. */
const WINDOW_SECONDS = 16

let devnet: Devnet
let chain: Chain
let honest: TestNode
let host: Host
let buyer: TestBuyer
let wallet: Wallet
const cleanups: (() => unknown)[] = []

beforeAll(async () => {
  devnet = await startDevnet()
  const options = { network: usdc.network, asset: usdc.address, rpcUrl: devnet.rpcUrl, timeoutMs: 30_000 }
  chain = createChain(options, { logger: silentLogger })
  const key = generatePrivateKey()
  const { rpcUrl, facilitatorUrl } = devnet
  honest = await startTestNode({ key, rpcUrl, facilitatorUrl, peerRequestsPerSecond: 10_000 })
  const agent = { description: 'says it again', model: 'builtin/echo' }
  const register = (name: string, price: bigint) => honest.registerAgent({ ...agent, name, price }, { persist: false })
  honestIds = [(await register('free', 0n)).id, (await register('paid', PRICE)).id]
  host = await startTestHost({ timing: { openMs: LIMIT_MS } })
  wallet = createWallet(randomHex(), usdc)
  await devnet.fund(wallet.address, 100_000_000n)
  buyer = startBuyer()
  const pay_to = privateKeyToAccount(key).address
  const where = { pay_to, seller_id: honest.peerId, addrs: honest.addresses() }
  buyer.list({ ...where, ...free, id: honestIds[0], protocols: [MARKETPLACE_PROTOCOL] })
  buyer.list({ ...where, id: honestIds[1] })
  hostile = await Promise.all(silences.map(([, start]) => start()))
})
afterAll(async () => {
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()))
  await host?.stop()
  await stopTestNodes()
  await devnet?.stop()
})
/** Agents of sellers that say nothing, in each way. */
let hostile: string[]
/** Of an agent that is free, and of one that is not. */
let honestIds: [string, string]

function startBuyer(): TestBuyer {
  const made = new TestBuyer({
    ...{ clock: new HandClock(systemClock.now()), wallet, chain, dailyBudget: 10n ** 9n },
    open: (peer, protocol, signal) => host.openStream(peer, protocol, signal),
  })
  Object.assign(made.deps, {
    firstAnswerMs: LIMIT_MS,
    shownWorkMs: LIMIT_MS,
    afterWindowMs: AFTER_WINDOW_MS,
    unpaidMs: LIMIT_MS,
  })
  return made
}

type Where = { seller_id: string; addrs: string[] }
const free: Partial<Listing> = { price: 0n, price_atomic: '0' }

function list(changes: Partial<Listing> & Where, on = buyer): string {
  const id = randomUUID()
  on.list({ id, ...changes })
  return id
}

/** A seller on a host of its own that follows a script. */
async function scripted(
  script: (stream: ScriptedStream) => Promise<void>,
): Promise<Where & { leave(): Promise<void> }> {
  const seller = new ScriptedSeller(script)
  return serving(X402_PROTOCOL, (stream) => seller.serve(stream))
}

async function serving(protocol: string, handler: (stream: Stream) => void) {
  const own = await startAttacker('127.0.0.1')
  cleanups.push(() => own.stop())
  await own.handle(protocol, handler)
  const addrs = own.getMultiaddrs().map(String)
  return { seller_id: own.peerId.toString(), addrs, leave: async () => void (await own.stop()) }
}

/** A byte now and then, and never the last. */
function drip(stream: Stream, bytes: Uint8Array): void {
  let at = 0
  const timer = setInterval(() => {
    if (stream.status !== 'open' || at + 1 >= bytes.length) clearInterval(timer)
    else stream.send(bytes.subarray(at, ++at))
  }, 20)
  stream.addEventListener('close', () => clearInterval(timer))
}

/** The same message again and again, as long as the stream stands. */
async function repeat(stream: ScriptedStream, type: string, message: object): Promise<void> {
  while (stream.raw.status === 'open') {
    await stream.send(type, message)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

const idOf = (message: AnyX402Message | undefined) => message?.message.correlation_id
const listens = async (stream: ScriptedStream) => {
  while ((await stream.next()) !== undefined);
}
const output = (request: AnyX402Message | undefined) => ({ version: '1.0', correlation_id: idOf(request), text: '.' })
const longFrame = encodeTextFrame('x402.payment_required', 'x'.repeat(100_000))

/** What sellers do instead of an answer to the first request. */
const silences: [string, () => Promise<string>][] = [
  ['never answers', async () => list(await scripted(listens))],
  [
    'drips bytes',
    async () =>
      list(
        await scripted(async (stream) => {
          await stream.next()
          drip(stream.raw, longFrame)
        }),
      ),
  ],
  [
    'speaks of other calls without end',
    async () =>
      list(
        await scripted(async (stream) => {
          const request = await stream.next()
          await repeat(stream, 'x402.output', { ...output(request), correlation_id: randomUUID() })
        }),
      ),
  ],
  [
    'shows a piece of output, for which it asks no payment, and then nothing',
    async () =>
      list(
        await scripted(async (stream) => {
          await stream.send('x402.output', output(await stream.next()))
          await listens(stream)
        }),
      ),
  ],
  [
    'shows output without end, and asks no payment',
    async () => list(await scripted(async (stream) => repeat(stream, 'x402.output', output(await stream.next())))),
  ],
  [
    'takes the connection and never says which protocol it speaks',
    async () => {
      const mute = await startAttacker('127.0.0.1', { mute: true })
      cleanups.push(() => mute.stop())
      return list({ seller_id: mute.peerId.toString(), addrs: mute.getMultiaddrs().map(String) })
    },
  ],
  [
    'lists its agent as free, and never answers',
    async () =>
      list({ ...free, protocols: [MARKETPLACE_PROTOCOL], ...(await serving(MARKETPLACE_PROTOCOL, () => {})) }),
  ],
  [
    'lists its agent as free, and drips the answer',
    async () => {
      const answer = Buffer.concat([Buffer.from([0, 1, 0, 0]), Buffer.alloc(65_536)])
      const seller = await serving(MARKETPLACE_PROTOCOL, (stream) => drip(stream, answer))
      return list({ ...free, protocols: [MARKETPLACE_PROTOCOL], ...seller })
    },
  ],
  [
    'lists its agent as free over the payment protocol, and shows output without end',
    async () => {
      const seller = await scripted(async (stream) => repeat(stream, 'x402.output', output(await stream.next())))
      return list({ ...free, ...seller })
    },
  ],
]

function call(agentId: string, by = buyer): Promise<unknown> {
  const signal = AbortSignal.timeout(PATIENCE_MS)
  return by.execute({ agentId, input: 'hello', signal, onProgress: () => {} })
}
const given = (agentId: string) =>
  call(agentId).then(
    () => 'a result',
    ({ code }: { code?: string }) => code,
  )
async function honestCall(agentId = honestIds[0]): Promise<void> {
  const signal = AbortSignal.timeout(PATIENCE_MS)
  buyer.clock.set(systemClock.now())
  const { output: said } = await buyer.execute({ agentId, input: 'hello', signal })
  expect(said).toBe('hello')
}
const ofAgent = async (agentId: string, by = buyer) =>
  (await by.ledger()).find(({ order }) => order.agentId === agentId)

test('T7 a buyer gives up a seller that is not paid yet, however it delays, and signs nothing', async () => {
  const calls = silences.map(async ([what], at) => {
    const agentId = hostile[at]!
    const code = await given(agentId)
    const { order, reservation } = (await ofAgent(agentId))!
    return { what, ends: code === 'DEADLINE' || code === 'SELLER_UNREACHABLE', status: order.status, reservation }
  })
  const ended = { ends: true, status: 'failed', reservation: undefined }
  expect(await Promise.all(calls)).toEqual(silences.map(([what]) => ({ what, ...ended })))
})

test('T7 calls that hang at many silent sellers leave the calls to an honest seller as quick as before', {
  retry: 2,
}, async () => {
  await expectBearable(
    () => honestCall(),
    async () => {
      const ends = await Promise.all(hostile.flatMap((id) => [1, 2, 3].map(() => given(id))))
      expect(new Set(ends)).not.toContain('a result')
    },
  )
  await honestCall(honestIds[1])
})

/** Asks for a short window, which begins a quarter of its length in the past. */
const brief = (stream: ScriptedStream, request: AnyX402Message | undefined, maxTimeoutSeconds = 2) =>
  stream.challenge(request, { payment_requirements: requirements({ maxTimeoutSeconds }) })

/** Each payment is answered with 2003. */
async function anew(stream: ScriptedStream): Promise<void> {
  for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
    if (message.type === 'x402.paid_request') await stream.refuse(message, 'PAYMENT_NONCE_EXPIRED', { retryable: true })
    else if ((message.message as { payment: unknown }).payment === null) await brief(stream, message)
  }
}

/** What sellers do once they have the payment. */
const takings: [string, (stream: ScriptedStream) => Promise<unknown>][] = [
  ['says nothing', listens],
  [
    'drips bytes',
    async (stream) => {
      await stream.next()
      drip(stream.raw, longFrame)
    },
  ],
  ['shows output without end', async (stream) => repeat(stream, 'x402.output', output(await stream.next()))],
  ['takes its challenges back', anew],
]

test('T23 a buyer waits for a paid seller without a result until the window has ended; the order is in doubt', async () => {
  const calls = takings.map(async ([what, after]) => {
    const seller = await scripted(async (stream) => {
      const request = await stream.next()
      if ((request?.message as { payment: unknown } | undefined)?.payment === null) await brief(stream, request)
      await after(stream)
    })
    const agentId = list(seller)
    const code = await given(agentId)
    const { order, reservation } = (await ofAgent(agentId))!
    return { what, code, status: order.status, payment: reservation?.state }
  })
  const doubt = { code: 'RESULT_PENDING', status: 'executing', payment: 'reserved' }
  expect(await Promise.all(calls)).toEqual(takings.map(([what]) => ({ what, ...doubt })))
  await honestCall(honestIds[1])
})

test('T23 the chain says in the background what became of an order in doubt: unpaid is given back, paid is asked for further', async () => {
  const facilitator = createFacilitator({ url: devnet.facilitatorUrl })
  cleanups.push(() => facilitator.close())
  let payments = 0
  const thief = await scripted(async (stream) => {
    await brief(stream, await stream.next(), WINDOW_SECONDS)
    await stream.next()
    payments++
    await listens(stream)
  })
  const [own, asked] = [startBuyer(), requirements({ maxTimeoutSeconds: WINDOW_SECONDS })]
  const [kept, taken] = [list(thief, own), list(thief, own)]
  const of = (agentId: string) => ofAgent(agentId, own)
  const ends = [kept, taken].map((id) => call(id, own).catch(({ code }: { code?: string }) => code))
  await until(async () => (await of(taken))?.reservation !== undefined && payments === 2, { timeoutMs: 60_000 })
  const { envelope } = (await of(taken))!.reservation!
  const settled = await facilitator.settle(envelope.payload!, asked, AbortSignal.timeout(10_000))
  expect(settled.kind).toBe('settled')
  expect(await Promise.all(ends)).toEqual(['RESULT_PENDING', 'RESULT_PENDING'])
  expect(await devnet.chain.balanceOf(payTo)).toBe(PRICE)
  await thief.leave()

  own.clock.advance(60_000)
  await devnet.chain.client.increaseTime({ seconds: 60 })
  await devnet.chain.mine()
  await own.recovery.start()
  cleanups.push(() => own.recovery.stop())
  await until(
    async () =>
      (await of(kept))?.reservation?.state === 'released' && (await of(taken))?.reservation?.state === 'spent',
    {
      timeoutMs: 60_000,
    },
  )
  expect((await of(kept))?.order.status).toBe('failed')
  expect((await of(taken))?.order.status).toBe('executing')
})
