import { CodedError } from '../../lib/errors.ts'
import { LISTING_BYTES_MAX } from '../../schema/listing.ts'
import type { Frame } from '../frame.ts'
import type { FramedStream } from '../framed-stream.ts'
import { BatchError, decodeBatch, encodeBatch } from './batch.ts'
import { MESSAGE_BYTES_MAX } from './reconcile/reconciliation.ts'

export const SYNC_PROTOCOL = '/node/sync/1.0.0'

/** Listings, and bytes, in one frame. Handling a full frame takes the event loop about 5 ms and a thread 10 ms. */
export const SYNC_BATCH_LISTINGS_MAX = 128
export const SYNC_BATCH_BYTES_MAX = 128 * 1024
/** Messages of one side. Reconciliation itself allows this many or fewer. */
const MESSAGES_MAX = 128
/** Batches sent that the receiver has not answered yet. */
const WINDOW = 2
/** How long either side may keep the other waiting for one step. */
const STEP_TIMEOUT_MS = 10_000

/** `SYNC_CUT`: the peer ended before `sync.end`, busy or stopping. `SYNC_INVALID`: it broke the protocol. */
export class SyncError extends CodedError<'SYNC_CUT' | 'SYNC_INVALID'> {
  override name = 'SyncError'
}

/** One side of a session. It decides what to say and do; this file decides when. */
export type SyncSide = {
  /** The first message, sent by the client. */
  open(): Uint8Array
  /**
   * Takes the peer's message. `say`: the reply, if any. `last`: the peer has nothing more to say after the reply.
   * `enough` ends the talk; the differences found so far stay valid.
   */
  hear(message: Uint8Array): { say?: Uint8Array; last: boolean } | 'enough'
  /** Batches of what the peer lacks. A batch is read only when the peer can take it. */
  batches(): Iterable<Uint8Array[]>
  /** True if listings are accepted from this peer. */
  readonly takes: boolean
  /**
   * Takes a batch and returns whether another is welcome, as far as is known. It may still be examined while the next
   * one arrives. An exception ends the session.
   */
  take(envelopes: Uint8Array[]): Promise<boolean>
  /** Resolves when every batch has been examined. An exception ends the session. */
  settle(): Promise<void>
}

type SyncOptions = { stepTimeoutMs?: number; signal: AbortSignal }

type Steps = { read(): Promise<Frame>; write(type: string, data?: Uint8Array): Promise<void> }

const NOTHING = new Uint8Array()

/**
 * Client: both sides find their differences, then each sends what the other lacks.
 *
 * 1. → `sync.open`, data: the first message of reconciliation (see protocols/sync/reconcile/reconciliation.ts)
 * 2. ←→ `sync.ranges`, data: a message. The sides take turns until neither asks. Or `sync.enough`, from
 * the side that stops early; the differences found until then stay valid.
 * 3. ← `sync.listings`, data: a batch of envelopes; any number of batches. Each is answered with → `sync.more` or
 * `sync.enough`; two may be unanswered. The server finishes with ← `sync.end`. If it accepts nothing in return, it ends
 * the session with ← `sync.enough`.
 * 4. The same with exchanged roles, ending with → `sync.end`.
 *
 * @throws SyncError, what the side throws, or what the stream throws
 */
export async function openSync(stream: FramedStream, side: SyncSide, options: SyncOptions): Promise<void> {
  const steps = stepsOf(stream, options)
  await steps.write('sync.open', side.open())
  await talk(steps, side)
  const last = await takeOver(steps, side)
  if (last === 'sync.enough') return
  await handOver(steps, side)
  await steps.write('sync.end')
}

/** Server: the mirror of `openSync`. A stream that ends before `sync.open` is an error (`SYNC_CUT`). */
export async function serveSync(stream: FramedStream, side: SyncSide, options: SyncOptions): Promise<void> {
  const steps = stepsOf(stream, options)
  const first = await steps.read()
  if (first.type !== 'sync.open') throw unexpected(first)
  if (!(await answer(steps, side, first))) await talk(steps, side)
  await handOver(steps, side)
  if (!side.takes) return steps.write('sync.enough')
  await steps.write('sync.end')
  const last = await takeOver(steps, side)
  if (last !== 'sync.end') throw new SyncError('SYNC_INVALID', 'the client ended as a server does')
}

async function talk(steps: Steps, side: SyncSide): Promise<void> {
  for (let messages = 0; messages < MESSAGES_MAX; messages++) {
    const frame = await steps.read()
    if (frame.type === 'sync.enough') return
    if (frame.type !== 'sync.ranges') throw unexpected(frame)
    if (await answer(steps, side, frame)) return
  }
  throw new SyncError('SYNC_INVALID', `the peer talks without end: ${MESSAGES_MAX} messages`)
}

/** Answers a message and returns whether the talk is over. */
async function answer(steps: Steps, side: SyncSide, frame: Frame): Promise<boolean> {
  if (frame.data.length > MESSAGE_BYTES_MAX) throw unexpected(frame)
  const heard = side.hear(frame.data)
  if (heard === 'enough') {
    await steps.write('sync.enough')
    return true
  }
  if (heard.say !== undefined) await steps.write('sync.ranges', heard.say)
  return heard.last
}

async function handOver(steps: Steps, side: SyncSide): Promise<void> {
  let unanswered = 0
  const isWelcome = async () => {
    const frame = await steps.read()
    if (frame.type !== 'sync.more' && frame.type !== 'sync.enough') throw unexpected(frame)
    unanswered--
    return frame.type === 'sync.more'
  }
  for (const batch of side.batches()) {
    if (unanswered === WINDOW && !(await isWelcome())) return
    await steps.write('sync.listings', encodeBatch(batch))
    unanswered++
  }
  while (unanswered > 0) if (!(await isWelcome())) return
}

/** @returns how the peer ended */
async function takeOver(steps: Steps, side: SyncSide): Promise<string> {
  let refused: number | undefined
  for (;;) {
    const frame = await steps.read()
    if (frame.type === 'sync.end' || frame.type === 'sync.enough') {
      await side.settle()
      return frame.type
    }
    const envelopes = decodeListings(frame)
    if (refused !== undefined) {
      // This batch was sent before the peer received the refusal.
      if (++refused >= WINDOW) throw new SyncError('SYNC_INVALID', 'the peer hands over what was refused')
      continue
    }
    const welcome = await side.take(envelopes)
    if (!welcome) refused = 0
    await steps.write(welcome ? 'sync.more' : 'sync.enough')
  }
}

function decodeListings(frame: Frame): Uint8Array[] {
  // An empty frame makes no progress. A peer must not keep the session open with empty frames.
  if (frame.type !== 'sync.listings' || frame.data.length === 0 || frame.data.length > SYNC_BATCH_BYTES_MAX) {
    throw unexpected(frame)
  }
  try {
    return decodeBatch(frame.data, { itemsMax: SYNC_BATCH_LISTINGS_MAX, itemBytesMax: LISTING_BYTES_MAX })
  } catch (error) {
    throw error instanceof BatchError ? new SyncError('SYNC_INVALID', error.message, { cause: error }) : error
  }
}

function unexpected({ type, data }: Frame): SyncError {
  return new SyncError('SYNC_INVALID', `unexpected frame ${JSON.stringify(type)} of ${data.length} bytes`)
}

function stepsOf(stream: FramedStream, { stepTimeoutMs = STEP_TIMEOUT_MS, signal }: SyncOptions): Steps {
  const limit = () => AbortSignal.any([signal, AbortSignal.timeout(stepTimeoutMs)])
  return {
    async read() {
      const frame = await stream.read(limit())
      if (frame === undefined) throw new SyncError('SYNC_CUT', 'the peer ended in the middle of the session')
      return frame
    },
    write: (type, data = NOTHING) => stream.write({ type, data }, limit()),
  }
}
