import { sameAddress } from '../payments/assets.ts'
import { givenAt } from '../payments/receipt.ts'
import { requirementsOf } from '../payments/requirements.ts'
import { signatureTurn } from '../payments/signature-turn.ts'
import { proveSigner, type VerifiedPayment } from '../payments/verify.ts'
import type { PayerLimits } from '../protocols/doors/payer-limits.ts'
import type { SettleResponse } from '../protocols/doors/settle-response.ts'
import { PeerError } from '../protocols/peer-error.ts'
import { type PaidResult, type PaidRunDeps, type ServedAgent, willSettleFirst } from '../protocols/x402/exchange.ts'
import { runFree } from '../protocols/x402/free-run.ts'
import { runPaid } from '../protocols/x402/sale.ts'
import { CALLER_HEADER, HOPS_KEY } from '../schema/a2a.ts'
import { a2aCaller, isStranger, STRANGER } from '../schema/caller.ts'
import type { PaymentEnvelope, PaymentRequirements } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import type { SignedReceipt } from '../schema/receipt.ts'
import { readHops } from '../schema/x402.ts'
import { isLedgerAway } from '../store/store-error.ts'
import { isUnguessable } from './call-context.ts'
import type { Outcome, Progress, Turn, Work } from './executor.ts'
import {
  errorCodeOf,
  otherPurpose,
  paid,
  paymentFailed,
  paymentRejected,
  paymentRequired,
  readSubmission,
  type Submitted,
  verified,
} from './payment-messages.ts'
import { WorkOwed, whenKnown, whenPaid, whenSettled } from './slow-payments.ts'

const NOBODYS = `only a caller that begins a task with a secret in the header ${CALLER_HEADER} can cancel it once it is paid for`

export type AgentWorkDeps = PaidRunDeps & {
  /** Limits of each account, for callers that prove only an account. */
  payers?: PayerLimits | undefined
  /** What x402's offer-receipt extension has of an agent at its address, and of a sale. Undefined: callers are of this node. */
  x402?: X402Words | undefined
}
export type X402Words = {
  /** The extensions of a payment request: the signed offer. */
  offer(agent: ServedAgent): object | undefined
  settled(sold: {
    agentId: string
    txHash: Hex
    payer: Hex
    receipt: SignedReceipt | undefined
    at: number
  }): SettleResponse
}

/** A free agent runs. A paid one asks for payment and then runs by the same procedure as over libp2p. */
export function agentWork(agentId: string, description: string, deps: AgentWorkDeps): Work {
  const look = async (turn: Turn) => {
    const agent = deps.agents.find(agentId)
    const asking = { peerId: callerOf(turn).peerId, isStreamed: turn.onOutput !== undefined }
    const settleFirst = deps.settleFirst || (agent !== undefined && isShownToStranger(agent, turn))
    const sale = { ...deps, settleFirst }
    return { agent, sale, settlesFirst: agent && agent.amount > 0n && (await willSettleFirst(agent, asking, sale)) }
  }
  return async (turn, progress) => {
    const seen = await look(turn).catch(notBegun)
    if ('kind' in seen) return seen
    const { agent, sale, settlesFirst = false } = seen
    if (agent === undefined) return { kind: 'rejected', text: 'this agent was removed' }
    if (agent.amount === 0n) return free(agent, turn, progress, deps)
    if (agent.isOnChannelsOnly)
      return { kind: 'rejected', text: 'this agent is sold on payment channels only: call it through a Stoa node' }
    const requirements = requirementsOf(agent, deps.asset, deps.payTo, { settlesFirst })
    const ask = { ...sale, agent, requirements, description, check: turn.check }
    const submission = readSubmission(turn.metadata)
    switch (submission.kind) {
      case 'submitted':
        return paidFor(submission, turn, progress, ask)
      case 'unreadable':
        return refused('INVALID_SIGNATURE', submission.reason, ask)
      case 'rejected':
        return { kind: 'failed', text: 'the payment was declined', metadata: paymentRejected() }
      case 'none':
        return asked('This agent is paid per task: sign what x402.payment.required asks for and send it.', turn, ask)
    }
  }
}

type PaymentRequest = AgentWorkDeps &
  Pick<Turn, 'check'> & { agent: ServedAgent; requirements: PaymentRequirements; description: string }

/** Payments that bought something, here or before. */
const boughtCodes: ReadonlySet<string> = new Set(['SETTLEMENT_FAILED', 'PAYMENT_NONCE_USED'])

async function free(agent: ServedAgent, turn: Turn, progress: Progress, deps: PaidRunDeps): Promise<Outcome> {
  progress.working()
  try {
    return { kind: 'completed', output: await runFree(agent, turn.input, callerOf(turn), deps) }
  } catch (error) {
    if (!(error instanceof PeerError)) throw error
    return { kind: turn.running.isCanceled ? 'canceled' : busyOr('failed', error), text: error.message }
  }
}

async function paidFor(submission: Submitted, turn: Turn, progress: Progress, ask: PaymentRequest): Promise<Outcome> {
  const { agent, requirements } = ask
  const { payment } = submission
  const other = otherPurpose(submission, requirements, turn.url)
  if (other !== undefined) return refusedBy(other, payment, ask)
  using checking = await turn.check?.turn()
  const proved = await proofOf(payment, ask).catch(notBegun)
  if (proved !== undefined && 'kind' in proved) return proved
  const place = proved && ask.payers?.enter(proved.payer)
  if (typeof place === 'string') return asked(`${place}; nothing was charged: send the payment again`, turn, ask)
  using _place = place
  let claimed: { id: Hex; settlesFirst: boolean } | undefined
  const onClaimed = (payment: { id: Hex; settlesFirst: boolean }) => {
    claimed = payment
    checking?.[Symbol.dispose]()
    // A payment that settles before the run cannot be canceled. Without a secret, nobody can prove that a paid task is theirs.
    const isNobodys = turn.caller.tokenId === STRANGER.tokenId
    turn.running.canCancel = !payment.settlesFirst && !isNobodys
    if (isNobodys && !payment.settlesFirst) turn.running.whyKept = NOBODYS
    progress.working(verified())
  }
  const onLate = () => {
    claimed = claimed && { ...claimed, settlesFirst: true }
    turn.running.canCancel = false
  }
  try {
    const task = { payment, proved, input: turn.input, challenge: undefined, door: 'a2a' as const, onClaimed, onLate }
    const caller = callerOf(committed(turn))
    const ran = await runPaid(agent, task, caller, ask).catch((error: unknown) => {
      checking?.[Symbol.dispose]()
      // A task that was canceled before its payment was sent to settle pays nothing.
      const settling = turn.running.isCanceled ? undefined : claimed
      if (settling?.settlesFirst === true) return whenSettled(settling.id, error, callerOf(turn), ask)
      if (isLedgerAway(error)) return whenKnown(payment, error, callerOf(turn), ask)
      throw error
    })
    const id = claimed?.id ?? proved?.paymentId
    const isOpen = isStranger(turn.caller) && ran.txHash === undefined && id !== undefined
    const result = isOpen ? await whenPaid(id, ran, caller, ask) : ran
    if (claimed !== undefined && result.txHash !== undefined) turn.check?.paid()
    const receipt = {
      network: requirements.network,
      payer: payment.payer,
      txHash: result.txHash,
      signed: result.receipt,
      settled: settledOf({ ...result, agentId: agent.id, payer: payment.payer }, ask),
    }
    const text = result.txHash === undefined ? 'Paid; settlement is under way.' : `Paid in ${result.txHash}.`
    return { kind: 'completed', output: result.output, text, metadata: paid(receipt) }
  } catch (error) {
    if (error instanceof WorkOwed) return owed(error, payment, ask)
    if (!(error instanceof PeerError)) throw error
    const { code, message } = error
    if (code === 'OVERLOADED') return asked(`${message}; nothing was charged: send the payment again`, turn, ask)
    if (code !== 'EXECUTION_FAILED') return refusedBy(error, payment, ask)
    const metadata = paymentFailed(turn.running.isCanceled ? 'CANCELED' : code, message, requirements.network)
    return { kind: turn.running.isCanceled ? 'canceled' : 'failed', text: `${message}; nothing is charged`, metadata }
  }
}

function settledOf(
  { txHash, receipt, ...sold }: Pick<PaidResult, 'txHash' | 'receipt'> & { agentId: string; payer: Hex },
  { x402, clock }: PaymentRequest,
): SettleResponse | undefined {
  if (txHash === undefined) return undefined
  const at = givenAt(receipt, clock.now())
  return x402?.settled({ ...sold, txHash, receipt, at })
}

/**
 * What the signature proves, where accounts have limits. A payment that proves no account is refused later, and so is a used
 * payment or one to another account. The chain shows their signatures to anybody, so they must not use up the limits of their
 * payers.
 */
async function proofOf(
  payment: PaymentEnvelope,
  { payers, asset, payTo, payments, clock }: PaymentRequest,
): Promise<VerifiedPayment | undefined> {
  const { to, validBefore = 0n } = payment.payload?.authorization ?? {}
  const isOurs = to !== undefined && sameAddress(to, payTo) && payment.network === asset.network
  if (payers === undefined || !isOurs || validBefore * 1000n < clock.now()) return undefined
  await signatureTurn()
  const proof = proveSigner(payment, asset)
  return proof.ok && !(await payments.has(proof.payment.paymentId)) ? proof.payment : undefined
}

/** What is shown cannot be kept back, so a stranger that watches the output pays first (T6). */
function isShownToStranger({ streaming }: ServedAgent, { caller, onOutput }: Turn): boolean {
  return isStranger(caller) && onOutput !== undefined && streaming !== 'off'
}

/** A payer that has seen part of the output can no longer cancel (T6). */
function committed(turn: Turn): Turn {
  const { onOutput, running } = turn
  if (onOutput === undefined) return turn
  const shown: Turn['onOutput'] = (text) => {
    running.canCancel = false
    onOutput(text)
  }
  return { ...turn, onOutput: shown }
}

/** The caller is told that it has paid: for a task that only failed it would pay again. */
function owed(error: WorkOwed, { payer }: PaymentEnvelope, { logger, requirements }: PaymentRequest): Outcome {
  const { id, txHash, correlationId } = error.payment
  logger.error({ err: error, payment_id: id, correlation_id: correlationId }, 'a paid A2A task has no result')
  const text = 'The agent failed again and again. This task is paid for, and its seller owes the result or the money'
  return { kind: 'failed', text, metadata: paid({ network: requirements.network, payer, txHash }) }
}

function asked(text: string, turn: Turn, { agent, requirements, description, x402 }: PaymentRequest): Outcome {
  const more = { error: text, extensions: x402?.offer(agent) }
  return { kind: 'input-required', text, metadata: paymentRequired(requirements, { url: turn.url, description }, more) }
}

/** The outcome of a turn that failed before anything was claimed. @throws the error, if it does not pass */
export function notBegun(error: unknown): Outcome {
  if (isLedgerAway(error)) return { kind: 'not-begun', text: 'the ledger of this node is away' }
  if (error instanceof PeerError && error.code === 'OVERLOADED') return { kind: 'not-begun', text: error.message }
  throw error
}

function refusedBy(error: PeerError, payment: PaymentEnvelope, ask: PaymentRequest): Outcome {
  if (error.code === 'SETTLEMENT_FAILED' && !error.retryable) ask.check?.unsettled()
  else if (!boughtCodes.has(error.code)) ask.check?.refused()
  return refused(errorCodeOf(error, payment, ask.requirements, ask.clock.now()), error.message, ask)
}

function refused(code: string, reason: string, { requirements }: PaymentRequest): Outcome {
  const metadata = paymentFailed(code, reason, requirements.network)
  return { kind: 'failed', text: `The payment was refused: ${reason}`, metadata }
}

function busyOr(kind: 'failed', error: PeerError): 'failed' | 'rejected' {
  return error.code === 'OVERLOADED' ? 'rejected' : kind
}

/**
 * A2A callers prove no identity. A conversation with an unguessable id (UUID) has its own memory. With any other id,
 * the task has no memory, because the id may belong to another caller (T9).
 */
function callerOf({ ids: { taskId, contextId }, caller: { tokenId }, signal, onOutput, running, metadata }: Turn) {
  const caller = a2aCaller(tokenId, isUnguessable(contextId) ? contextId : taskId)
  const onCommitted = () => {
    running.canCancel = false
  }
  return {
    ...{ peerId: caller, callerDid: caller, correlationId: taskId, signal, onCommitted },
    hops: readHops(metadata?.[HOPS_KEY]),
    ...(onOutput && { onOutput }),
  }
}
