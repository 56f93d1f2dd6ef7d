import type { RunSlots } from '../../agents/run-slots.ts'
import { type AgentCall, AgentError, NoMachine, type Usage } from '../../agents/runtime.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/logger.ts'
import type { Asset } from '../../payments/assets.ts'
import type { IsBlocked } from '../../payments/blocked.ts'
import type { Challenges } from '../../payments/challenges.ts'
import type { ChannelFunds } from '../../payments/channels/channel-funds.ts'
import type { SellerChannels } from '../../payments/channels/seller-channels.ts'
import type { Exposure } from '../../payments/exposure.ts'
import type { ReceiptSigner } from '../../payments/receipt-signer.ts'
import type { Settler } from '../../payments/settler.ts'
import type { Unrun } from '../../payments/unrun.ts'
import type { StreamingMode } from '../../schema/agent.ts'
import type { Pricing } from '../../schema/pricing.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { ReceiptForm, SignedReceipt } from '../../schema/receipt.ts'
import type { Deferred } from '../../store/deferred.ts'
import type { Exchanges } from '../../store/exchanges.ts'
import type { Exposed } from '../../store/exposed.ts'
import type { Claim, Payments } from '../../store/payments.ts'
import { isRefused, isUnwritable, StoreError } from '../../store/store-error.ts'
import type { FramedStream } from '../framed-stream.ts'
import { PeerError } from '../peer-error.ts'
import type { PeerLimits } from '../peer-limits.ts'
import type { GrowingCalls } from './growing-call.ts'
import type { Reruns } from './reruns.ts'
import { abandon } from './running.ts'

export type ServedAgent = {
  id: string
  /** The most that a call costs, in atomic units; 0 is free. */
  amount: bigint
  /** Prices by use, for calls on channels. Undefined: a call costs `amount`. */
  pricing?: Pricing
  /** True if no call can be paid for by itself. */
  isOnChannelsOnly?: true
  timeoutMs: number
  tokenId: string
  /** How paid runs show output. Undefined means `owed_once_shown`. */
  streaming?: StreamingMode
  /** True if its runs cost its seller money, and too many were not paid for (T6). Its payments then settle first. */
  isAhead?(): Promise<boolean>
  /** True if a call would wait here while a machine of another process of this seller is free. Counts the call there. */
  isFreeElsewhere?(): boolean
  /** True if another process of this seller sells the agent, on machines of its own. */
  isSoldElsewhere?(): boolean
  run(call: Omit<AgentCall, 'history'>): Promise<string>
}

/** Sends a call on to another process of this seller, if its client allows that. @throws PeerError OVERLOADED */
export function refer(agent: ServedAgent, mayRefer: boolean): void {
  if (!mayRefer || agent.isFreeElsewhere?.() !== true) return
  const reason =
    'all machines for this agent are busy at this process, and one is free at another process of this seller'
  throw new PeerError('OVERLOADED', `${reason}: ask there; nothing was charged`)
}

/**
 * True if a run failed because no machine here could end it, and another process sells the agent. Nobody has seen output of
 * this run.
 */
export function mayRunElsewhere(agent: ServedAgent, failure: unknown): boolean {
  return failure instanceof NoMachine && agent.isSoldElsewhere?.() === true
}

/** The agents that this node sells. `selling/hosted-agents.ts` implements it. */
export interface ServedAgents {
  /** The agent, if it is on offer. @throws PeerError OVERLOADED while nothing is sold */
  find(id: string): ServedAgent | undefined
  /** The ids of all agents that this process has. */
  offered(): Iterable<string>
  /** The agent's token on the chain, if it has one. It is known even while nothing is sold. */
  tokenOf(id: string): string | undefined
}

type Growth = {
  calls: GrowingCalls
  /** How long output waits for a higher ceiling. */
  waitMs: number
  /** How often each payer did not pay on. */
  withheld: Map<string, number>
}

export type X402ServerDeps = {
  clock: Clock
  logger: Logger
  asset: Asset
  payTo: Hex
  receiptSigner: ReceiptSigner
  sellerDid: string
  didOf(peerId: string): string
  agents: ServedAgents
  slots: RunSlots
  challenges: Challenges
  payments: Payments
  /** Payments that were answered with 2007 and still have to be delivered. */
  deferred: Deferred
  exchanges: Exchanges
  settler: Settler
  /** Ends what a ledger that is away could not end. */
  unrun: Pick<Unrun, 'abandon' | 'leave' | 'keep'>
  limits: PeerLimits
  reruns: Reruns
  /** Runs in progress by payment id. A request for a result waits for the run. */
  running: Map<Hex, Promise<void>>
  /** Calls on channels whose output is paid for as it comes. */
  growth: Growth
  /** Runs in progress for buyers that wrap their tasks, by buyer, agent and task. */
  wrappedRuns: Map<string, WrappedRun>
  settleFirst: boolean
  /** True if one of these accounts or peers is on the operator's list. */
  isBlocked: IsBlocked
  /** Unsettled exposure. It decides which payments settle first. */
  exposure: Exposure
  /** Payment channels to this seller. Undefined: it takes none. */
  channels?: SellerChannels | undefined
  /** Sends deposits and refunds of channels. Undefined: buyers send them. */
  channelFunds?: ChannelFunds | undefined
}

/** True if a payment for this agent would be settled before the run, as far as known before the buyer signs (D45). */
export async function willSettleFirst(
  agent: ServedAgent,
  { peerId, isStreamed }: { peerId: string; isStreamed: boolean },
  { settleFirst, exposure }: Pick<X402ServerDeps, 'settleFirst' | 'exposure'>,
): Promise<boolean> {
  const isShownLater = agent.streaming === 'after_settlement' && isStreamed
  if (settleFirst || isShownLater || (await agent.isAhead?.()) === true) return true
  return exposure.willSettleFirst(peerId, agent.amount)
}

/** Who calls, and under which correlation id. `signal` aborts when the node stops or the caller cancels its request. */
export type Caller = {
  peerId: string
  /** The DID of that peer, proved by the connection. The DID in a message does not count (D25). */
  callerDid: string
  correlationId: string
  signal: AbortSignal
  /** `charged`: what the call costs with this text, if its output is paid for as it comes. */
  onOutput?(text: string, charged?: bigint): unknown
  /** Set if the caller pays by use. */
  onUsage?(usage: Usage): void
  /** Number of agents that bought for one another before this call, as its sender states it. */
  hops?: number
  /** Called when the run has cost its seller money. The caller can then no longer cancel. */
  onCommitted?(): void
  /** True if the buyer refuses settlement before the run (D45). */
  refusesSettleFirst?: boolean
  /** The receipt that it can read. Undefined: one with a signature of its own. */
  receiptForm?: ReceiptForm
  /** True if the buyer sends its payment to another process of this seller, if this one leaves it (ADR-38). */
  mayMove?: boolean
  /** False if the buyer takes its result before the payment has settled (D46). */
  awaitsSettlement?: boolean
}

/** The agent call for a caller. `run` is the payment that buys it, or its exchange if the agent is free. */
export function runCall(caller: Omit<Caller, 'peerId'>, input: string, run: { id: string; isPaid: boolean }) {
  const { callerDid: callerId, signal, onCommitted, onUsage, hops = 0 } = caller
  const told = { ...(onCommitted && { onCommitted }), ...(onUsage && { onUsage }) }
  return { input, callerId, signal, origin: { ...run, hops }, ...told }
}

/**
 * A stream that a peer has opened. `stopping` aborts when the node ends what still runs. Before that, while `isDraining`, it
 * finishes what it has begun.
 */
export type InboundStream = { stream: FramedStream; peerId: string; stopping: AbortSignal; isDraining?(): boolean }

export type Exchange = Caller &
  InboundStream & {
    /** True if the buyer wraps its task, as the original node does. It also expects a wrapped answer. */
    isWrapped?: boolean
  }

/** A paid run for a buyer that wraps its task, and the stream on which that buyer waits. */
export type WrappedRun = { id: Hex; stream: FramedStream }

/** What a paid run needs, in every protocol that brings payments. */
export type PaidRunDeps = Omit<X402ServerDeps, 'sellerDid' | 'didOf' | 'limits' | 'wrappedRuns'>

export type PaidResult = { output: string; txHash: Hex | undefined; receipt: SignedReceipt | undefined }

/** The reason that a buyer may read. AgentError and PeerError are written for buyers; other errors stay private. */
export function buyerReason(failure: unknown): string {
  return failure instanceof AgentError || failure instanceof PeerError ? failure.message : 'the agent failed'
}

export function asExecutionFailed(cause: unknown): never {
  if (cause instanceof PeerError) throw cause
  throw new PeerError('EXECUTION_FAILED', buyerReason(cause), { cause })
}

/**
 * Claims an authorization.
 *
 * @returns whether it was new, and for a payment that is run first, the unsettled work of all processes with it
 * @throws PeerError if nothing was stored: EXECUTION_FAILED to a peer, which can buy elsewhere at once; OVERLOADED to a client of
 * a door while the ledger cannot be written, for example on a full disk, because it would sign anew after a failure
 */
export async function storeClaim(claim: Claim, deps: PaidRunDeps): Promise<{ isClaimed: boolean; exposed?: Exposed }> {
  const { settler, payments, clock, logger } = deps
  try {
    if (claim.task !== undefined) return { isClaimed: await settler.claim(claim) }
    const exposed = await payments.claimExposed(claim, clock.now())
    return exposed === undefined ? { isClaimed: false } : { isClaimed: true, exposed }
  } catch (error) {
    // The claim may have been stored without an answer.
    if (error instanceof StoreError && error.code === 'STORE_IN_DOUBT') abandon(claim.id, deps)
    if (!isUnwritable(error) && !isRefused(error)) throw error
    logger.error({ err: error, payment_id: claim.id }, 'a payment could not be stored: its run was refused')
    if (isUnwritable(error) && (claim.door ?? 'libp2p') !== 'libp2p')
      throw new PeerError('OVERLOADED', 'this seller cannot store payments now: it cannot write its ledger')
    throw new PeerError('EXECUTION_FAILED', 'the seller could not store the payment; nobody was charged')
  }
}
