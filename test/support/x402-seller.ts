import { randomBytes, randomUUID } from 'node:crypto'
import type { Stream } from '@libp2p/interface'
import { streamPair } from '@libp2p/utils'
import { RunSlots } from '../../src/agents/run-slots.ts'
import { createLedger, type LedgerRecords, openRecords } from '../../src/ledger/ledger.ts'
import type { Tail } from '../../src/ledger/tail.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createSales } from '../../src/node/sales.ts'
import type { PaymentChain } from '../../src/payments/chain-verdict.ts'
import { type ChallengeSeal, createChallengeSeal } from '../../src/payments/challenge-seal.ts'
import type { Challenges } from '../../src/payments/challenges.ts'
import { type Exposure, type ExposureDeps, type ExposureOptions, exposureLimits } from '../../src/payments/exposure.ts'
import type { Facilitator } from '../../src/payments/facilitator.ts'
import { FramedStream } from '../../src/protocols/framed-stream.ts'
import type { PeerLimits, PeerLimitsOptions } from '../../src/protocols/peer-limits.ts'
import type { ServedAgent, X402ServerDeps } from '../../src/protocols/x402/exchange.ts'
import { type AnyX402Message, readMessage } from '../../src/protocols/x402/messages.ts'
import { MARKETPLACE_PROTOCOL } from '../../src/schema/marketplace.ts'
import type { PaymentEnvelope } from '../../src/schema/payment.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { X402_PROTOCOL, type X402MessageType } from '../../src/schema/x402.ts'
import { type Database, openDatabase } from '../../src/store/database.ts'
import type { Exchanges } from '../../src/store/exchanges.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import type { Payments } from '../../src/store/payments.ts'
import { endProcess } from './end-process.ts'
import { FakeSettlement } from './fake-settlement.ts'
import { HandClock } from './hand-clock.ts'
import { agentId, payTo, sellerWallet, signed, usdc } from './payments.ts'

type Run = ServedAgent['run']
type Handler = (stream: Stream, peerId: string) => void

export type TestSellerOptions = {
  database?: Database
  /** A ledger apart from `database`, such as one that several sellers share. */
  ledger?: LedgerDatabase
  settlement?: FakeSettlement
  /** The real facilitator and chain instead of `settlement`. */
  facilitator?: Facilitator
  chain?: PaymentChain
  /** The balance of a payer on the real chain. */
  funds?: ExposureDeps['chain']
  payTo?: Hex
  attemptTimeoutMs?: number
  clock?: HandClock
  settleFirst?: boolean
  exposure?: Partial<ExposureOptions>
  blocked?: readonly string[]
  limits?: Partial<PeerLimitsOptions>
  /** Another identity's. All sellers without one are processes of one seller. */
  seal?: ChallengeSeal
  /** Other processes of this seller that sell an agent, and what they change. */
  sellersOf?(agentId: string): readonly string[]
  tail?: Pick<Tail, 'listen'>
  slots?: { concurrentMax: number; waitingMax: number }
  channels?: Parameters<typeof createSales>[1]['channels']
  voucherWaitMs?: number
}

/** Ledgers that a seller has had. */
const used = new WeakSet<Database>()

/** A seller on the ledger of another one is that seller, started again: a process with an id of its own. */
function opened(database: Database = openDatabase({ path: ':memory:' })): Database {
  const opened = used.has(database) ? endProcess(database) : database
  used.add(database)
  return opened
}

/**
 * A seller over streams in memory: the real protocol servers, store, challenges and settler. The test provides only the
 * facilitator, the chain, the clock and the work of the agents.
 */
export class TestSeller {
  readonly clock: HandClock
  readonly settlement: FakeSettlement
  readonly database: Database
  /** The records without events. */
  readonly records: LedgerRecords
  readonly payments: Payments
  readonly exchanges: Exchanges
  readonly challenges: Challenges
  readonly exposure: Exposure
  /** The balance of every payer on the chain, in atomic units. */
  balance = 10n ** 12n
  readonly limits: PeerLimits
  readonly deps: X402ServerDeps
  /** One entry for each run that began. */
  readonly runs: { input: string; callerId: string }[] = []
  readonly agents = new Map<string, ServedAgent>()
  readonly log: unknown[][] = []
  /** The work of the agents. If undefined, agents repeat their task. */
  work: Run | undefined
  /** The seller's ends of the streams, in the order in which they were opened. */
  readonly inbound: Stream[] = []
  readonly #handlers = new Map<string, Handler>()
  readonly #sales: ReturnType<typeof createSales>
  readonly #peers: TestPeer[] = []

  constructor(options: TestSellerOptions = {}) {
    this.clock = options.clock ?? new HandClock()
    this.settlement = options.settlement ?? new FakeSettlement()
    this.database = opened(options.database)
    this.records = openRecords(options.ledger ?? this.database, { hasChain: true })
    const ledger = createLedger(this.records, {
      logger: silentLogger,
      namesOf: () => undefined,
    })
    this.payments = ledger.payments
    this.exchanges = ledger.exchanges
    const { clock } = this
    const { facilitator = this.settlement.facilitator, chain = this.settlement.chain } = options
    const { settlement } = this
    const funds = options.funds ?? {
      usdcBalance: async () => this.balance,
      authorizationUse: chain.authorizationUse,
      simulateTransfer: settlement.simulateTransfer.bind(settlement),
    }
    const { attemptTimeoutMs = 1_000 } = options
    const note = (...entry: unknown[]) => void this.log.push(entry)
    this.#sales = createSales(
      {
        exposure: { ...exposureLimits, ...options.exposure },
        blocked: options.blocked,
        limits: { requestsPerSecond: 1000, ...options.limits },
        drainMs: 2_000,
        settler: { firstAttemptWaitMs: 2 * attemptTimeoutMs, attemptTimeoutMs, tickMaxMs: 5 },
        settleFirst: options.settleFirst ?? false,
        voucherWaitMs: options.voucherWaitMs,
        payTo: options.payTo ?? payTo,
        sellerDid: 'did:seller',
      },
      {
        ...{ clock, ledger, facilitator, chain, funds, chance: () => 0.5 },
        logger: { ...silentLogger, debug: note, info: note, warn: note, error: note },
        ...{ asset: usdc, wallet: sellerWallet, didOf: (peerId) => `did:${peerId}` },
        channels: options.channels,
        seal: options.seal ?? createChallengeSeal(Buffer.from('one seller'), randomBytes),
        agents: {
          find: (id) => this.agents.get(id),
          offered: () => this.agents.keys(),
          tokenOf: (id) => this.agents.get(id)?.tokenId,
        },
        slots: new RunSlots(options.slots ?? { concurrentMax: 8, waitingMax: 64 }),
        ...(options.sellersOf && { sellersOf: options.sellersOf }),
        ...(options.tail && { tail: options.tail }),
        handle: async (protocol, handler) => void this.#handlers.set(protocol, handler),
      },
    )
    this.deps = this.#sales.x402
    this.exposure = this.deps.exposure
    this.limits = this.deps.limits
    this.challenges = this.deps.challenges
    this.addAgent()
    this.addAgent({ id: 'free', amount: 0n })
  }

  async start(): Promise<this> {
    const { exposure, settler, settledWork, protocols } = this.#sales
    for (const service of [exposure, settler, settledWork, protocols]) await service.start()
    return this
  }

  async stop(): Promise<void> {
    await this.#sales.protocols.stop()
    await this.#sales.settledWork.stop()
    await this.#sales.unrun.stop()
    await this.#sales.channels?.stop()
    for (const { raw } of this.#peers) raw.abort(new Error('the seller has stopped'))
    await this.#sales.settler.stop()
  }

  /** Goes on with the payments of processes that have ended. */
  async takeOver(): Promise<void> {
    await this.#sales.settler.takeOver()
    this.#sales.settledWork.wake()
  }

  /** Adds an agent. The defaults are a price of 0.01 USDC and 120 s. */
  addAgent(changes: Partial<ServedAgent> = {}): void {
    const run: Run = async (call) => {
      this.runs.push({ input: call.input, callerId: call.callerId })
      return this.work === undefined ? `re: ${call.input}` : await this.work(call)
    }
    const agent = { id: agentId, amount: 10_000n, timeoutMs: 120_000, tokenId: '', run, ...changes }
    this.agents.set(agent.id, agent)
  }

  /** Opens a stream to this seller, as the peer's connection would. */
  async open(peerId = 'buyer', protocol: string = X402_PROTOCOL): Promise<Stream> {
    const [ours, theirs] = await streamPair({ protocol })
    this.inbound.push(theirs)
    this.#handlers.get(protocol)!(theirs, peerId)
    return ours
  }

  async connect(peerId = 'buyer'): Promise<TestPeer> {
    const peer = new TestPeer(this, peerId, await this.open(peerId))
    this.#peers.push(peer)
    return peer
  }

  openMarketplace(peerId = 'buyer'): Promise<Stream> {
    return this.open(peerId, MARKETPLACE_PROTOCOL)
  }
}

type Json = Record<string, unknown>
export type Answer = { type: X402MessageType; message: Json }

/** A client that sends whatever the test wants, valid or not. */
export class TestPeer {
  readonly peerId: string
  readonly raw: Stream
  readonly stream: FramedStream
  readonly #seller: TestSeller

  constructor(seller: TestSeller, peerId: string, raw: Stream) {
    this.#seller = seller
    this.peerId = peerId
    this.raw = raw
    this.stream = new FramedStream(raw)
  }

  send(type: string, message: unknown): Promise<void> {
    const text = JSON.stringify(message, (_key, value) => (typeof value === 'bigint' ? value.toString() : value))
    return this.stream.writeText(type, text, AbortSignal.timeout(60_000))
  }

  /** The next message, or `undefined` if the seller has ended the stream. */
  async next(): Promise<Answer | undefined> {
    const message: AnyX402Message | undefined = await readMessage(this.stream, AbortSignal.timeout(60_000))
    return message as Answer | undefined
  }

  async request(changes: Json = {}): Promise<Answer | undefined> {
    await this.send('x402.request', this.message({ resource: agentId, method: 'execute', payment: null, ...changes }))
    return this.next()
  }

  async paidRequest(payment: PaymentEnvelope, changes: Json = {}): Promise<Answer | undefined> {
    await this.send('x402.paid_request', this.message({ payment, ...changes }))
    return this.next()
  }

  /** Requests a challenge and signs a payment for it. */
  async challenged(changes: Json = {}): Promise<{ paymentId: Hex; payment: PaymentEnvelope; correlation_id: string }> {
    const correlation_id = (changes.correlation_id as string | undefined) ?? randomUUID()
    const asked = await this.request({ ...changes, correlation_id })
    if (asked?.type !== 'x402.payment_required') throw new Error(`no challenge but ${JSON.stringify(asked)}`)
    const serverNonce = asked.message.challenge_nonce as Hex
    const { paymentId, envelope } = signed(this.#seller.clock.now(), { serverNonce })
    return { paymentId, payment: envelope, correlation_id }
  }

  /** Buys one run in the standard flow. */
  async buy(
    task = 'task',
  ): Promise<{ answer: Answer | undefined; payment: PaymentEnvelope; paymentId: Hex; correlation_id: string }> {
    const body = base64(task)
    const challenged = await this.challenged({ body })
    const answer = await this.paidRequest(challenged.payment, { correlation_id: challenged.correlation_id, body })
    return { ...challenged, answer }
  }

  askResult(payment: PaymentEnvelope | null, changes: Json = {}): Promise<Answer | undefined> {
    return this.request({ method: 'result', payment, body: '', ...changes })
  }

  message(changes: Json): Json {
    const correlation_id = randomUUID()
    return { version: '1.0', correlation_id, body: base64('task'), caller_did: `did:${this.peerId}`, ...changes }
  }
}

export function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

/** An answer in short: the name of its error, or the text of its result. */
export function told(answer: Answer | undefined): unknown {
  if (answer === undefined) return undefined
  if (answer.type === 'x402.error') return answer.message.error_name
  if (answer.type === 'x402.response') return Buffer.from(answer.message.body as string, 'base64').toString()
  return answer.type
}
