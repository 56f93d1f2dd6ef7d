import { Hold } from '../../lib/hold.ts'
import { createTurns } from '../../lib/turns.ts'
import { proveSigner } from '../../payments/verify.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import { readPaymentIds, type Settlement, type X402Message } from '../../schema/x402.ts'
import type { StoredPayment } from '../../store/payments.ts'
import { PeerError } from '../peer-error.ts'
import { admit } from './admit.ts'
import { underWay, untilHere } from './elsewhere.ts'
import type { Caller, Exchange, PaidResult, PaidRunDeps, ServedAgent, X402ServerDeps } from './exchange.ts'
import { readTask, respond } from './messages.ts'
import { paidBack, paymentOf, provenPayment, refuseElsewhere } from './proven-payment.ts'
import { readableReceipt } from './receipts.ts'
import { beginRun, leaveRun, runEnd } from './running.ts'
import { runSettled } from './sale.ts'
import { unheardOf } from './wrapped-run.ts'

/**
 * Answers `method: "result"`: the result that this payment bought, for the peer that paid (D32). The signature proves
 * the payment, and the connection proves the peer. Nothing is claimed or charged. Only work that was settled first and
 * never finished is run. If the run is in progress, the answer waits for it.
 */
export async function answerResult(
  request: Pick<X402Message<'x402.request'>, 'payment' | 'resource' | 'body' | 'settlements_of'>,
  asked: Exchange,
  deps: X402ServerDeps,
): Promise<void> {
  const { exchange } = readTask(request.body, request.resource, asked)
  const proven = provenPayment(request.payment, { what: 'result', ...asked }, deps)
  // `answerBought` waits too, but a payment in progress may not be stored yet.
  await runEnd(proven, deps)
  await refuseElsewhere(proven, { payment: request.payment, peerId: asked.peerId }, deps)
  const stored = await paymentOf(proven, { ...asked, resource: request.resource }, deps)
  await answerBought(stored, exchange, deps, await settlementsOf(request.settlements_of, asked.peerId, deps))
}

/** The transactions of other payments of this peer, as far as they are stored. Undefined if it asks for none. */
async function settlementsOf(
  asked: unknown,
  peerId: string,
  { payments }: Pick<X402ServerDeps, 'payments'>,
): Promise<readonly Settlement[] | undefined> {
  const ids = readPaymentIds(asked)
  if (ids === undefined) return undefined
  const named = await payments.transactionsOf(ids, peerId)
  return named.map(({ id, txHash }) => ({ payment_id: id, tx_hash: txHash }))
}

/**
 * Takes up a payment that was answered with 2007, when its buyer sends it again (D39). The buyer gets its result, or
 * 2007 again; nothing is claimed or charged. A replay of any other payment is not taken up and gets 2004.
 * @returns true if the message was answered. @throws PeerError while there is no result
 */
export async function takeUp(
  sent: { payment: PaymentEnvelope; body: string; agentId?: string },
  asked: Exchange,
  deps: X402ServerDeps,
): Promise<boolean> {
  const proof = proveSigner(sent.payment, deps.asset)
  if (!proof.ok) return false
  const { paymentId: id } = proof.payment
  const stored = await deps.payments.get(id)
  if (stored?.task === undefined || stored.peerId !== asked.peerId) return false
  if (sent.agentId !== undefined && sent.agentId !== stored.agentId) return false
  // The task of a payment that was given up is forgotten. Any other payment buys only the task sent first.
  const { input, exchange } = readTask(sent.body, stored.agentId, asked)
  if (stored.task !== '' && stored.task !== input) return false
  const isWith = deps.running.has(id) || stored.ran || (await deps.payments.isElsewhere(id))
  if (isWith && !(await deps.deferred.was(id))) return false
  await answerBought(stored, exchange, deps)
  return true
}

/**
 * Takes up the payment of a buyer that asks again without one, also of a buyer that left before its result was there
 * and does not know `method: "result"`. A new challenge would make it pay twice for this task.
 */
export async function takeUpTask(
  agent: ServedAgent,
  body: string,
  asked: Exchange,
  deps: X402ServerDeps,
): Promise<boolean> {
  // An empty task asks for the price.
  if (body === '') return false
  const { input: task, exchange } = readTask(body, agent.id, asked)
  const sought = { peerId: asked.peerId, agentId: agent.id, task }
  const deferred = await deps.deferred.find(sought)
  const id = deferred ?? (exchange.isWrapped ? await unheardOf(sought, exchange.stream, deps) : undefined)
  if (id === undefined) return false
  await answerBought((await deps.payments.get(id))!, exchange, deps)
  return true
}

/** Reads, encodes and sends one stored result per turn of the event loop. A result may be megabytes (T32). */
const resultTurn = createTurns(1)

/** Answers with what is stored of a payment. @throws PeerError if there is no result */
export async function answerBought(
  stored: StoredPayment,
  exchange: Exchange,
  deps: X402ServerDeps,
  settlements?: readonly Settlement[],
): Promise<void> {
  const { id } = stored
  const answerWith = async (result: PaidResult) => {
    const receipt = await readableReceipt(result.receipt, exchange, deps)
    const tokenId = deps.agents.tokenOf(stored.agentId) ?? ''
    const bought = { id, tokenId, ...result, receipt, charge: stored.channel?.charge, settlements }
    await respond(bought, exchange, deps)
  }
  await runEnd(id, deps)
  await untilHere(stored, exchange.signal, deps)
  const isAnswered = await deps.limits.oneByOne(exchange.peerId, async () => {
    await resultTurn()
    exchange.signal.throwIfAborted()
    const kept = await keptResult((await deps.payments.get(id)) ?? stored, deps)
    if (kept !== undefined) await answerWith(kept)
    return kept !== undefined
  })
  if (!isAnswered) await answerWith(await resultOf(stored, exchange, deps))
  // The buyer has its result: an error has nowhere to go.
  await noteTaken(stored, deps).catch((err: unknown) => {
    const ids = { payment_id: id, correlation_id: exchange.correlationId }
    deps.logger.warn({ ...ids, err }, 'could not store that a buyer has its result')
  })
}

async function noteTaken({ id, task, awaited }: StoredPayment, { deferred }: X402ServerDeps): Promise<void> {
  if (task !== undefined || awaited !== undefined || (await deferred.was(id))) await deferred.taken(id)
}

async function keptResult(
  payment: StoredPayment,
  deps: Pick<PaidRunDeps, 'exchanges' | 'settler' | 'payments'>,
): Promise<PaidResult | undefined> {
  const output = await deps.exchanges.paidOutput(payment.id)
  if (output === undefined) return undefined
  // The hash may not be on disk yet, or it came there since the payment was read.
  const { id } = payment
  const txHash = payment.txHash ?? deps.settler.namedFor(id) ?? (await deps.payments.get(id))?.txHash
  return { output, txHash, receipt: payment.receipt }
}

/** What a payment has bought. Runs settled work that never finished. @throws PeerError */
export async function resultOf(stored: StoredPayment, caller: Caller, deps: PaidRunDeps): Promise<PaidResult> {
  // Not `runEnd`: all requests that waited for one run would go on before the first of them marks its own.
  for (let run = deps.running.get(stored.id); run !== undefined; run = deps.running.get(stored.id)) await run
  // Begin before anything is read: other requests wait then, so no other run can begin between a check and this run.
  using _running = beginRun(stored.id, deps)
  const payment = await untilHere(stored, caller.signal, deps)
  const kept = await keptResult(payment, deps)
  if (kept !== undefined) return kept
  const input = await unfinishedTask(payment, deps)
  const agent = deps.agents.find(payment.agentId)
  if (agent === undefined) {
    throw new PeerError('UNKNOWN_RESOURCE', 'the agent was removed; ask the seller to bring it back')
  }
  using slot = admit(caller.callerDid, deps)
  await slot.turn(agent.id)
  if (!(await deps.payments.beginRun(payment))) throw underWay()
  using left = new Hold(() => void leaveRun(payment.id, deps))
  const result = await runSettled(agent, { payment, input }, caller, deps)
  left.keep()
  return result
}

/** The task of a settled payment whose run never finished and may start. @throws PeerError for any other payment */
async function unfinishedTask(payment: StoredPayment, deps: PaidRunDeps): Promise<string> {
  if (payment.mayMove) {
    throw new PeerError('PAYMENT_REQUIRED', 'no run of this payment has ended; it can still be used to pay')
  }
  if (payment.state === 'voided') {
    const reason = payment.error ?? 'the agent failed'
    throw new PeerError('EXECUTION_FAILED', `${reason}; the payment was voided, nothing is charged`)
  }
  if (payment.state === 'authorized') {
    throw new PeerError('EXECUTION_FAILED', 'the seller could not store the result; nobody is charged')
  }
  if (payment.refundTx !== undefined) throw paidBack(payment.refundTx)
  const { task } = payment
  // Work that ran is not run again for the same payment, no matter how late the buyer asks (T5).
  if (task === undefined || payment.ran) throw new PeerError('UNKNOWN_RESOURCE', 'the result is no longer kept')
  if (payment.state === 'unsettled') {
    const reason = `the payment could not be settled (${payment.error ?? 'no reason known'}), so nothing ran`
    throw new PeerError('SETTLEMENT_FAILED', reason, { retryable: false })
  }
  if (payment.state !== 'settled') {
    throw new PeerError('SETTLEMENT_FAILED', 'the payment is not settled yet; ask for the result later')
  }
  // The refund was sent but not yet seen in a block. Delivering now could give the work for nothing (T6).
  if (await deps.payments.isBeingPaidBack(payment.id)) {
    throw new PeerError('SETTLEMENT_FAILED', 'the seller is paying this payment back; ask again later')
  }
  const waitMs = deps.reruns.waitMs(payment)
  if (waitMs > 0) {
    const reason = `the runs of this payment have failed; it may run again in ${Math.ceil(waitMs / 1000)} s`
    throw new PeerError('OVERLOADED', `${reason}: ask for the result then`)
  }
  return task
}
