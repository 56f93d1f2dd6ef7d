import { CodedError } from '../../lib/errors.ts'
import { LISTING_BYTES_MAX } from '../../schema/listing.ts'
import type { Frame } from '../frame.ts'
import type { FramedStream } from '../framed-stream.ts'
import { BatchError, decodeBatch, encodeBatch } from './batch.ts'

export const SYNC_PROTOCOL = '/node/sync/1.0.0'

/** Listings of one frame, and the bytes of them: they keep the event loop for about 5 ms, and a thread for 10. */
export const SYNC_BATCH_LISTINGS_MAX = 128
export const SYNC_BATCH_BYTES_MAX = 128 * 1024
/** Messages of reconciliation are shorter than this. */
const MESSAGE_BYTES_MAX = 64 * 1024
/** Messages of one side. Reconciliation itself allows as many, or fewer. */
const MESSAGES_MAX = 128
/** Batches under way that the taker has not yet answered. */
const WINDOW = 2
/** How long either side may keep the other waiting for one step. */
const STEP_TIMEOUT_MS = 10_000

/**
 * `SYNC_CUT`: the peer ended before `sync.end`, as one does that is busy or stopping. `SYNC_INVALID`: not this protocol.
 */
export class SyncError extends CodedError<'SYNC_CUT' | 'SYNC_INVALID'> {
  override name = 'SyncError'
}

/** One side of a session: what is said and done, of which this file only knows when. */
export type SyncSide = {
  /** The first message, of the client. */
  open(): Uint8Array
  /**
   * Takes the peer's message. `say` is the reply, if any; after it, where it is `last`, the peer has nothing to say.
   * `enough` ends the talk: what was found so far stands.
   */
  hear(message: Uint8Array): { say?: Uint8Array; last: boolean } | 'enough'
  /** Batches of what the peer lacks; asked for when the peer can take one. */
  batches(): Iterable<Uint8Array[]>
  /** Whether anything is taken from this peer at all. */
  readonly takes: boolean
  /**
   * Takes a batch, and tells whether another is welcome, as far as is known by now: it may still be looked at while the
   * next one comes. What it throws ends the session.
   */
  take(envelopes: Uint8Array[]): Promise<boolean>
  /** Resolves when all that was taken has been looked at. What it throws ends the session. */
  settle(): Promise<void>
}

export type SyncOptions = { stepTimeoutMs?: number; signal: AbortSignal }

type Steps = { read(): Promise<Frame>; write(type: string, data?: Uint8Array): Promise<void> }

const NOTHING = new Uint8Array()

/**
 * Client: both sides find out how they differ, then each hands over what the other lacks.
 *
 * 1. → `sync.open`, data: the first message of reconciliation (see protocols/sync/reconcile/reconciliation.ts)
 * 2. ←→ `sync.ranges`, data: a message; in turns, until nothing is asked any more. Or `sync.enough`, by who will go on no
 *    longer: what was found until then stands.
 * 3. ← `sync.listings`, data: a batch of envelopes; any number. Each is answered → `sync.more` or `sync.enough`; two may be
 *    unanswered. ← `sync.end`, or `sync.enough` from who wants nothing in return: then it is over.
 * 4. The same with the roles exchanged, ending with → `sync.end`.
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

/** Server: the mirror of `openSync`. A stream that ends before it has begun is none. */
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

/** Answers a message, and tells whether the talk is over. */
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
      // What was under way when it was refused.
      if (++refused >= WINDOW) throw new SyncError('SYNC_INVALID', 'the peer hands over what was refused')
      continue
    }
    const welcome = await side.take(envelopes)
    if (!welcome) refused = 0
    await steps.write(welcome ? 'sync.more' : 'sync.enough')
  }
}

function decodeListings(frame: Frame): Uint8Array[] {
  // An empty frame is no progress: a peer must not keep us with a stream of them.
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
