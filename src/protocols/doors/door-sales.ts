import { randomBytes, randomUUID } from 'node:crypto'
import type { OnOutput } from '../../agents/runtime.ts'
import type { Hold } from '../../lib/hold.ts'
import { Lanes } from '../../lib/lane.ts'
import { pooledBytes } from '../../lib/pooled-bytes.ts'
import { doubledMs } from '../../lib/retry.ts'
import { risingUuid } from '../../lib/rising-uuid.ts'
import { pause } from '../../lib/wait.ts'
import { sameAddress } from '../../payments/assets.ts'
import { givenAt } from '../../payments/receipt.ts'
import { doorSignatureTurn } from '../../payments/signature-turn.ts'
import { proveSigner, type VerifiedPayment } from '../../payments/verify.ts'
import { type Door, doorCaller } from '../../schema/door.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { StoredPayment } from '../../store/payments.ts'
import { isLedgerAway } from '../../store/store-error.ts'
import { PeerError } from '../peer-error.ts'
import type { Caller, PaidResult, PaidRunDeps } from '../x402/exchange.ts'
import { resultOf } from '../x402/result.ts'
import { runPaid } from '../x402/sale.ts'
import { busy, type DoorAnswer, pending, refused, settlementOf, unsettled, used } from './door-answers.ts'
import { PayerLimits } from './payer-limits.ts'
import type { PaymentCheck } from './payment-check.ts'

/** One paid request. `boundTo`: a digest of what the payment pays for: method, path and body. */
type DoorRequest = {
  door: Exclude<Door, 'libp2p' | 'a2a'>
  agentId: string
  input: string
  payment: PaymentEnvelope
  boundTo: Uint8Array
  /** True if the payment settles before the run. */
  isUpfront?: boolean
  /** Why the buyer says that it pays for something else, or for other terms. A payment that was claimed is not asked. */
  mismatch?: string | undefined
  check?: PaymentCheck | undefined
  onOutput?: OnOutput
  /** Called before the agent runs, if this request has it run, and its payment has settled by then. */
  onSettled?(txHash: Hex): void
}

/** Requests of all payers at once. */
const OPEN_MAX = 1_024

/** How long an answer waits beyond the first attempt at settlement. */
const DECIDED_MS = 3_000
const DECIDED_PAUSE = { firstMs: 25, mostMs: 500 }

type Open = { boundTo: Uint8Array; answer: Promise<DoorAnswer> }

/**
 * Sells runs at doors where a buyer is known by its account alone, and where it may send the same request again because its
 * answer was lost. One authorization buys one run: the same request waits for the run or gets its stored answer, also after
 * a restart, and any other request with it gets nothing. The claim is that of all doors (sale.ts).
 *
 * A run goes on when its caller has left, and only the end of the node cancels it.
 */
export class DoorSales {
  readonly #deps: PaidRunDeps
  readonly #payers: PayerLimits
  /** Limits of each payment that was claimed before. The chain may show it to anybody, so it takes no place of its payer. */
  readonly #claimed: PayerLimits
  readonly #open = new Map<Hex, Open>()
  /** Stored results of one payer are read one after another: a request of a few bytes may ask for megabytes (T31). */
  readonly #reads = new Lanes()
  readonly #stopping = new AbortController()
  readonly #random = pooledBytes(randomBytes)

  constructor(deps: PaidRunDeps, payers = new PayerLimits(deps), claimed = new PayerLimits(deps)) {
    this.#deps = deps
    this.#payers = payers
    this.#claimed = claimed
  }

  /** Never throws. */
  async sell(request: DoorRequest): Promise<DoorAnswer> {
    const answer = await this.#checked(request)
    if (answer.kind === 'refused') request.check?.refused()
    else if (answer.kind === 'unsettled') request.check?.unsettled()
    return answer
  }

  async #checked(request: DoorRequest): Promise<DoorAnswer> {
    const { asset, payTo } = this.#deps
    const { payment } = request
    const to = payment.payload?.authorization.to
    if (payment.network !== asset.network) return refused(`the network must be ${asset.network}`)
    if (to === undefined || !sameAddress(to, payTo)) return refused(`the authorization must pay ${payTo}`)
    using checking = await request.check?.turn()
    await doorSignatureTurn()
    const proof = proveSigner(payment, asset)
    if (!proof.ok) return refused(proof.reason)
    const { paymentId: id } = proof.payment
    const open = this.#open.get(id)
    if (open !== undefined) return isSame(open.boundTo, request.boundTo) ? open.answer : used()
    if (this.#open.size >= OPEN_MAX) return busy('this seller answers too many paid requests now', 'unknown')
    const answer = this.#answer(proof.payment, request, checking).finally(() => this.#open.delete(id))
    this.#open.set(id, { boundTo: request.boundTo, answer })
    return await answer
  }

  /** Resolves when nothing is sold. */
  async idle(): Promise<void> {
    while (this.#open.size > 0) await Promise.all([...this.#open.values()].map(({ answer }) => answer))
  }

  /** Cancels what still runs: it is voided, and nobody is charged. */
  abort(reason: Error): void {
    this.#stopping.abort(reason)
  }

  /** From `sell` to the claim no other request of this process gets here with the same payment. Never throws. */
  async #answer(proved: VerifiedPayment, request: DoorRequest, checking?: Hold): Promise<DoorAnswer> {
    const { paymentId: id, payer, signed } = proved
    const { payments, clock } = this.#deps
    const caller = this.#callerOf(payer, request)
    try {
      const stored = await payments.get(id)
      // The chain shows the signatures of old payments to anybody. They have limits of their own, not those of their payer.
      if (stored !== undefined && !isFor(stored, request)) return used()
      const isOver = signed.authorization.validBefore * 1000n < clock.now()
      const own = isOver ? undefined : this.#payers
      const place = stored === undefined ? own?.enter(payer) : this.#claimed.enter(id)
      if (typeof place === 'string') {
        return { kind: 'limited', reason: place, settlement: settlementOf(stored) }
      }
      using _place = place
      if (stored === undefined) return await this.#sell(request, proved, caller, checking)
      checking?.[Symbol.dispose]()
      return await this.#taken(stored, request, caller)
    } catch (error) {
      checking?.[Symbol.dispose]()
      const claimed = isUsed(error) ? await this.#claimedElsewhere(id) : undefined
      if (claimed !== undefined) return this.#taken(claimed, request, caller)
      return this.#failure(id, payer, error)
    }
  }

  /** The payment that another process got at the same moment and claimed first. Never throws. */
  #claimedElsewhere(id: Hex): Promise<StoredPayment | undefined> {
    return this.#deps.payments.get(id).catch(() => undefined)
  }

  async #sell(
    request: DoorRequest,
    proved: VerifiedPayment,
    caller: Caller,
    checking: Hold | undefined,
  ): Promise<DoorAnswer> {
    const { payment, input, door, boundTo, agentId, isUpfront = false, mismatch, onSettled } = request
    if (mismatch !== undefined) return refused(mismatch)
    const agent = this.#deps.agents.find(agentId)
    if (agent === undefined) return { kind: 'unknown', reason: `this seller has no agent ${agentId}` }
    const onClaimed = () => checking?.[Symbol.dispose]()
    const task = {
      payment,
      proved,
      input,
      challenge: undefined,
      door,
      boundTo,
      onClaimed,
      ...(onSettled && { onSettled }),
    }
    const result = await runPaid(agent, task, caller, {
      ...this.#deps,
      settleFirst: this.#deps.settleFirst || isUpfront,
    })
    const answer = await this.#delivered(result.id, payment.payer, result)
    if (answer.kind === 'result') request.check?.paid()
    return answer
  }

  /** The answer to a payment that was claimed before. Only the same request gets its result. Never throws. */
  async #taken(stored: StoredPayment, request: DoorRequest, caller: Caller): Promise<DoorAnswer> {
    if (!isFor(stored, request)) return used()
    const payer = stored.signed.authorization.from
    try {
      return await this.#reads.run(payer, () => this.#again(stored, caller))
    } catch (error) {
      return this.#failure(stored.id, payer, error)
    }
  }

  async #again(stored: StoredPayment, caller: Caller): Promise<DoorAnswer> {
    const result = await resultOf(stored, caller, this.#deps)
    const now = await this.#deps.payments.get(stored.id)
    if (now?.state === 'unsettled') return unsettled(now)
    return this.#delivered(stored.id, stored.signed.authorization.from, result)
  }

  /** Gives a result for a payment that has settled, and keeps it back otherwise. */
  async #delivered(id: Hex, payer: Hex, { output, receipt, txHash: named }: PaidResult): Promise<DoorAnswer> {
    const at = receipt?.payload.issuedAt
    const isDone = named !== undefined && at !== undefined
    if (isDone) return { kind: 'result', id, output, txHash: named, payer, receipt, at }
    const stored = await this.#decided(id)
    const txHash = named ?? stored?.txHash
    if (stored?.state === 'unsettled') return unsettled(stored)
    if (txHash === undefined || stored === undefined) return pending(NOT_SETTLED)
    return { kind: 'result', id, output, txHash, payer, receipt, at: givenAt(receipt, stored.createdAt) }
  }

  /** The payment once its settlement is decided, or after a short wait: an attempt that failed may be the last. */
  async #decided(id: Hex): Promise<StoredPayment | undefined> {
    const deadline = performance.now() + DECIDED_MS
    for (let looks = 1; ; looks++) {
      const stored = await this.#deps.payments.get(id)
      const isOpen = stored?.state === 'owed' && stored.txHash === undefined
      if (!isOpen || performance.now() >= deadline) return stored
      if (!(await pause(doubledMs(looks, DECIDED_PAUSE), this.#stopping.signal))) return stored
    }
  }

  #callerOf(payer: Hex, { door, onOutput }: DoorRequest): Caller {
    return {
      peerId: doorCaller(door, payer.toLowerCase()),
      // One account may have many callers, so none has a session. The name rises with time, because exchanges are indexed by it.
      callerDid: doorCaller(door, risingUuid(this.#deps.clock.now(), this.#random)),
      correlationId: randomUUID(),
      signal: this.#stopping.signal,
      awaitsSettlement: true,
      // Results are stored in groups, and a group shares a signature. Who reads our receipts there reads both forms.
      ...(door === 'http' && { receiptForm: 'merkle' as const }),
      ...(onOutput && { onOutput }),
    }
  }

  /** What an error means for the buyer. What is stored of the payment decides, not the error. */
  async #failure(id: Hex, payer: Hex, error: unknown): Promise<DoorAnswer> {
    const { logger, payments } = this.#deps
    if (!(error instanceof PeerError)) {
      const isAway = isLedgerAway(error)
      logger[isAway ? 'warn' : 'error']({ err: error, payment_id: id }, 'a paid request failed inside the node')
      return pending('this seller failed before it knew what became of the payment')
    }
    const { code, message, retryable } = error
    let stored: StoredPayment | undefined
    try {
      stored = await payments.get(id)
    } catch {
      return pending('this seller cannot read its ledger now')
    }
    if (code === 'PAYMENT_NONCE_USED') return used()
    if (code === 'OVERLOADED') return busy(message, settlementOf(stored))
    if (stored?.state === 'unsettled') return unsettled(stored)
    const settlement = settlementOf(stored)
    if (code === 'SETTLEMENT_FAILED') {
      return retryable ? pending(message) : { kind: 'unsettled', reason: message, payer }
    }
    if (code === 'UNKNOWN_RESOURCE' || error.refundTx !== undefined)
      return { kind: 'gone', reason: message, settlement }
    if (code === 'EXECUTION_FAILED') return { kind: 'failed', reason: message, settlement }
    return stored === undefined ? refused(message) : { kind: 'failed', reason: message, settlement }
  }
}

const NOT_SETTLED = 'the payment is not settled yet'

function isSame(one: Uint8Array | undefined, other: Uint8Array): boolean {
  return one !== undefined && Buffer.compare(one, other) === 0
}

/** True if a payment was made for this very request. */
function isFor(stored: StoredPayment, { door, boundTo }: DoorRequest): boolean {
  return stored.door === door && isSame(stored.boundTo, boundTo)
}

function isUsed(error: unknown): boolean {
  return error instanceof PeerError && error.code === 'PAYMENT_NONCE_USED'
}

/** The caller of a free agent, who proves no identity. */
export function freeCaller(door: DoorRequest['door'], signal: AbortSignal): Omit<Caller, 'peerId'> {
  const correlationId = randomUUID()
  return { callerDid: doorCaller(door, correlationId), correlationId, signal }
}
