import { CodedError } from '../lib/errors.ts'
import { LISTING_BYTES_MAX } from '../schema/listing.ts'
import type { Frame } from './frame.ts'
import type { FramedStream } from './framed-stream.ts'
import { BatchError, decodeBatch, encodeBatch, splitBatches } from './listing-batch.ts'

export const SYNC_PROTOCOL = '/node/sync/1.0.0'

/** Data of one `sync.listings` frame. */
const FRAME_DATA_BYTES_MAX = 1024 * 1024
const FINGERPRINT_BYTES = 32
/** How long either side may keep the other waiting for one step. */
const STEP_TIMEOUT_MS = 10_000

/**
 * `SYNC_CUT`: the peer ended before `sync.end`, as one does that is busy or stopping. `SYNC_INVALID`: not this protocol.
 * `SYNC_TOO_MUCH`: it sends without end.
 */
export class SyncError extends CodedError<'SYNC_CUT' | 'SYNC_INVALID' | 'SYNC_TOO_MUCH'> {
  override name = 'SyncError'
}

export type PullOptions = {
  /** Of what this side holds: a peer that holds the same answers with nothing. */
  fingerprint: Uint8Array
  listingsMax: number
  bytesMax: number
  stepTimeoutMs?: number
  signal: AbortSignal
}

/**
 * Client: asks a peer for all its listings.
 *
 * 1. → `sync.pull`, data: 32 bytes fingerprint
 * 2. ← `sync.listings`, data: a batch of envelopes; any number of them, none where both hold the same
 * 3. ← `sync.end`
 *
 * @param take is given each batch in turn and is waited for; what it throws ends the exchange.
 * @returns how many envelopes came.
 * @throws SyncError, or what the stream throws
 */
export async function pullListings(
  stream: FramedStream,
  options: PullOptions,
  take: (envelopes: Uint8Array[]) => Promise<void>,
): Promise<number> {
  const { fingerprint, listingsMax, bytesMax, stepTimeoutMs = STEP_TIMEOUT_MS, signal } = options
  await stream.write({ type: 'sync.pull', data: fingerprint }, within(stepTimeoutMs, signal))
  let listings = 0
  let bytes = 0
  for (;;) {
    const frame = await stream.read(within(stepTimeoutMs, signal))
    if (frame === undefined) throw new SyncError('SYNC_CUT', 'the peer ended before it had sent all its listings')
    if (frame.type === 'sync.end') return listings
    const envelopes = decodeListings(frame)
    listings += envelopes.length
    bytes += frame.data.length
    if (listings > listingsMax || bytes > bytesMax) {
      throw new SyncError('SYNC_TOO_MUCH', `the peer sends more than ${listingsMax} listings or ${bytesMax} bytes`)
    }
    await take(envelopes)
  }
}

export type ServeOptions = {
  fingerprint: () => Uint8Array
  /** All envelopes this side holds, in portions. */
  portions: () => Iterable<Uint8Array[]>
  stepTimeoutMs?: number
  signal: AbortSignal
}

/** Server: the mirror of `pullListings`. */
export async function serveListings(stream: FramedStream, options: ServeOptions): Promise<void> {
  const { fingerprint, portions, stepTimeoutMs = STEP_TIMEOUT_MS, signal } = options
  const frame = await stream.read(within(stepTimeoutMs, signal))
  if (frame === undefined) return
  if (frame.type !== 'sync.pull' || frame.data.length !== FINGERPRINT_BYTES) throw unexpected(frame)
  if (!fingerprint().every((byte, index) => byte === frame.data[index])) {
    for (const portion of portions()) await sendListings(stream, portion, () => within(stepTimeoutMs, signal))
  }
  await stream.write({ type: 'sync.end', data: new Uint8Array() }, within(stepTimeoutMs, signal))
}

async function sendListings(stream: FramedStream, envelopes: Uint8Array[], limit: () => AbortSignal): Promise<void> {
  const limits = { itemsMax: Number.POSITIVE_INFINITY, bytesMax: FRAME_DATA_BYTES_MAX }
  for (const batch of splitBatches(envelopes, limits)) {
    await stream.write({ type: 'sync.listings', data: encodeBatch(batch) }, limit())
  }
}

function decodeListings(frame: Frame): Uint8Array[] {
  // An empty frame is no progress: a peer must not keep us with a stream of them.
  if (frame.type !== 'sync.listings' || frame.data.length === 0 || frame.data.length > FRAME_DATA_BYTES_MAX) {
    throw unexpected(frame)
  }
  try {
    return decodeBatch(frame.data, { itemsMax: FRAME_DATA_BYTES_MAX, itemBytesMax: LISTING_BYTES_MAX })
  } catch (error) {
    throw error instanceof BatchError ? new SyncError('SYNC_INVALID', error.message, { cause: error }) : error
  }
}

function unexpected({ type, data }: Frame): SyncError {
  return new SyncError('SYNC_INVALID', `unexpected frame ${JSON.stringify(type)} of ${data.length} bytes`)
}

function within(timeoutMs: number, signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
}
