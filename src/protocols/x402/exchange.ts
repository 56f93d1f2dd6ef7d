import type { Place } from '../../agents/run-slots.ts'
import { type AgentCall, AgentError, type OnOutput } from '../../agents/runtime.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/logger.ts'
import type { Asset } from '../../payments/assets.ts'
import type { Challenges } from '../../payments/challenges.ts'
import type { Exposure } from '../../payments/exposure.ts'
import type { Settler } from '../../payments/settler.ts'
import type { StreamingMode } from '../../schema/agent.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { Receipt, SignedReceipt } from '../../schema/signed-receipt.ts'
import type { Deferred } from '../../store/deferred.ts'
import type { Exchanges } from '../../store/exchanges.ts'
import type { Payments } from '../../store/payments.ts'
import { DATA_BYTES_MAX } from '../frame.ts'
import type { FramedStream } from '../framed-stream.ts'
import { PeerError } from '../peer-error.ts'
import type { PeerLimits } from '../peer-limits.ts'
import type { Reruns } from './reruns.ts'
import { unwrapTask, wrapOutput } from './wrapped-body.ts'

/** An agent of this node as the protocols see it. */
export type ServedAgent = {
  id: string
  /** Atomic units; 0 is free. */
  amount: bigint
  timeoutMs: number
  tokenId: string
  /** Of its runs that are paid for; nothing: what was shown is owed for. */
  streaming?: StreamingMode
  run(call: Omit<AgentCall, 'history'>): Promise<string>
}

export type X402ServerDeps = {
  clock: Clock
  logger: Logger
  asset: Asset
  payTo: Hex
  /** By the key of `payTo`. */
  signReceipt(receipt: Receipt): SignedReceipt
  sellerDid: string
  didOf(peerId: string): string
  /** 32 random bytes. */
  newNonce(): Hex
  /** @throws PeerError OVERLOADED where nothing is sold now */
  findAgent(id: string): ServedAgent | undefined
  /** The agent's token on the chain, where it has one. */
  tokenOf(id: string): string | undefined
  /** Lets work of a caller in that has a run to wait for. @throws PeerError OVERLOADED at once when too many are in */
  admit<T>(caller: string, work: (place: Place) => Promise<T>): Promise<T>
  /** Lets a run in and runs it in its turn. @throws PeerError OVERLOADED */
  inSlot<T>(caller: string, work: () => Promise<T>): Promise<T>
  challenges: Challenges
  payments: Payments
  /** What was answered 2007, and is still to be delivered. */
  deferred: Deferred
  exchanges: Exchanges
  settler: Settler
  limits: PeerLimits
  /** Paces runs that failed although they were paid for. */
  reruns: Pick<Reruns, 'waitMs' | 'failed' | 'done'>
  /** What runs now, by payment id: whoever asks for its result waits for it. */
  running: Map<Hex, Promise<unknown>>
  /** What runs now for buyers that wrap their task, by buyer, agent and task. */
  wrappedRuns: Map<string, WrappedRun>
  settleFirst: boolean
  /** What is out on promises already decides who settles first. */
  exposure: Pick<Exposure, 'enter' | 'leave' | 'isBlocked' | 'settlesFirst'>
}

/** Whether a payment for this agent would be settled before it runs, as far as that is known before it is signed (D45). */
export function willSettleFirst(
  agent: ServedAgent,
  { peerId, isStreamed }: { peerId: string; isStreamed: boolean },
  { settleFirst, exposure }: Pick<X402ServerDeps, 'settleFirst' | 'exposure'>,
): boolean {
  const isShownLater = agent.streaming === 'after_settlement' && isStreamed
  return settleFirst || isShownLater || exposure.settlesFirst(peerId, agent.amount)
}

/** Who asks, and under which id. `signal` ends when the node stops or the caller takes its request back. */
export type Caller = {
  peerId: string
  /** Of that peer: the connection has proved it, whatever a message says (D25). */
  callerDid: string
  correlationId: string
  signal: AbortSignal
  /** Told what the agent says while it works, where the caller wants to see it. */
  onOutput?: OnOutput
  /** How many agents have bought for one another before this call, as its sender says. */
  hops?: number
  /** Told when the run has cost its seller money: the caller cannot take its request back any more. */
  onCommitted?(): void
  /** The buyer wants nothing settled before the agent runs (D45). */
  refusesSettleFirst?: boolean
}

/** A run of an agent for a caller. `run`: the payment that buys it, or its exchange. */
export function runCall(caller: Omit<Caller, 'peerId'>, input: string, run: { id: string; isPaid: boolean }) {
  const { callerDid: callerId, signal, onCommitted, hops = 0 } = caller
  return { input, callerId, signal, origin: { ...run, hops }, ...(onCommitted && { onCommitted }) }
}

/** One exchange on a stream. */
export type Exchange = Caller & {
  stream: FramedStream
  /** The buyer wraps its task, as the original node does, and reads a wrapped answer. */
  isWrapped?: boolean
}

/** A paid run for a buyer that wraps its task, and the stream on which that buyer waits for it. */
export type WrappedRun = { id: Hex; stream: FramedStream }

/** What a paid run needs, whichever door the payment came through. */
export type PaidRunDeps = Pick<
  X402ServerDeps,
  | 'clock'
  | 'logger'
  | 'asset'
  | 'payTo'
  | 'signReceipt'
  | 'admit'
  | 'inSlot'
  | 'challenges'
  | 'payments'
  | 'deferred'
  | 'exchanges'
  | 'settler'
  | 'reruns'
  | 'running'
  | 'settleFirst'
  | 'exposure'
>

/** What else stands in a message, its receipt above all. */
const BESIDE_BODY_BYTES = 64 * 1024
/** A body of so many bytes fits into a message, as base64. */
const RESPONSE_BODY_BYTES_MAX = ((DATA_BYTES_MAX - BESIDE_BODY_BYTES) / 4) * 3

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** The task is text: base64 of UTF-8, plain or wrapped; a wrapped one is answered wrapped. */
export function readTask(body: string, resource: string, exchange: Exchange): { input: string; exchange: Exchange } {
  const text = textOf(body)
  const unwrapped = unwrapTask(text, resource)
  return { input: unwrapped ?? text, exchange: { ...exchange, isWrapped: unwrapped !== undefined } }
}

/**
 * The body of a response.
 *
 * JSON writes some characters as up to six: a result that is too long for a frame when it is wrapped goes as it is, which
 * the original node takes as well. What is paid for must not be lost to its wrapper.
 */
export function outputBody(output: string, { isWrapped }: Pick<Exchange, 'isWrapped'>): string {
  const wrapped = isWrapped === true ? Buffer.from(wrapOutput(output)) : undefined
  const fits = wrapped !== undefined && wrapped.length <= RESPONSE_BODY_BYTES_MAX
  return (fits ? wrapped : Buffer.from(output)).toString('base64')
}

function textOf(body: string): string {
  try {
    return utf8.decode(Buffer.from(body, 'base64'))
  } catch (cause) {
    throw new PeerError('INVALID_MESSAGE', 'body is not the base64 of UTF-8 text', { cause })
  }
}

/** What a buyer may read of a failed run: AgentError and PeerError are written for buyers, anything else is ours alone. */
export function buyerReason(failure: unknown): string {
  return failure instanceof AgentError || failure instanceof PeerError ? failure.message : 'the agent failed'
}

/** What an agent throws becomes EXECUTION_FAILED. */
export function asExecutionFailed(cause: unknown): never {
  if (cause instanceof PeerError) throw cause
  throw new PeerError('EXECUTION_FAILED', buyerReason(cause), { cause })
}
