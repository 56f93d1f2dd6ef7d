import { hash } from 'node:crypto'
import * as z from 'zod'
import { agentId } from '../agents/agent-id.ts'
import type { UnixMs } from '../lib/clock.ts'
import { CodedError, reasonOf } from '../lib/errors.ts'
import { readEnvelope, sealEnvelope } from '../p2p/envelope.ts'
import type { Identity } from '../p2p/identity.ts'
import { checkSignature, type SignatureCheck } from '../p2p/signature.ts'
import { assetOf, sameAddress } from '../payments/assets.ts'
import { PRICE_ATOMIC_MAX } from '../schema/amount.ts'
import { LISTING_BYTES_MAX, LISTING_SKEW_MS, LISTING_TTL_MS, ListingRecord } from '../schema/listing.ts'
import { MARKETPLACE_PROTOCOL } from '../schema/marketplace.ts'
import { X402_PROTOCOL } from '../schema/x402.ts'
import { keptUntil, type ListingEntry } from './set.ts'

/** Why this node does not accept an envelope as a listing. */
export type ListingRefusal = {
  error: ListingRefusalCode
  /** What is wrong, as text for people. */
  reason: string
}
type ListingRefusalCode = HostileCode | 'FUTURE' | 'EXPIRED' | 'UNWANTED'
type HostileCode = 'TOO_LARGE' | 'MALFORMED' | 'NOT_OWNER' | 'INCONSISTENT' | 'FORGED'
/** An entry with its complete record. */
export type ReadEntry = ListingEntry & { record: ListingRecord }
type ReadListing = { ok: true; entry: ReadEntry; check: () => SignatureCheck } | ({ ok: false } & ListingRefusal)
export type OpenedListing = { ok: true; entry: ReadEntry } | ({ ok: false } & ListingRefusal)

/**
 * True if only a hostile or broken peer can have sent this.
 *
 * Clocks differ and news arrives more than once, so an honest peer may send listings that are too new, too old or
 * known. A listing that contradicts itself or its signature is refused by every honest peer, so no honest peer passes
 * it on.
 */
export function isHostile(code: ListingRefusalCode): code is HostileCode {
  return code !== 'FUTURE' && code !== 'EXPIRED' && code !== 'UNWANTED'
}

export type JudgeOptions = {
  now: UnixMs
  /** Called last. The signature is not checked yet, so the contents are only claims. */
  wanted?: (entry: ReadEntry) => boolean
}

/**
 * Opens an envelope from any source and checks all that a listing must be (D5–D9). Cheap checks come first. The
 * signature comes last, because it is most of the cost.
 *
 * @param run schedules the cheap checks
 * @param isGenuine checks the signature
 */
export async function openListing(
  envelope: Uint8Array,
  options: JudgeOptions,
  {
    run = async (work) => work(),
    isGenuine = checkSignature,
  }: { run?: <T>(work: () => T) => Promise<T>; isGenuine?(check: SignatureCheck): Promise<boolean> } = {},
): Promise<OpenedListing> {
  const judged = await run(() => judgeListing(envelope, options))
  if (!judged.ok) return judged
  return (await isGenuine(judged.check())) ? { ok: true, entry: judged.entry } : forged(judged.entry)
}

/** Does all checks of `openListing` except the signature. */
export function judgeListing(envelope: Uint8Array, { now, wanted }: JudgeOptions): ReadListing {
  const read = readListing(envelope)
  if (!read.ok) return read
  const { record } = read.entry
  const refusal = refuseContents(record) ?? refuseTimes(record, now)
  if (refusal !== undefined) return { ok: false, ...refusal }
  if (wanted?.(read.entry) === false) return refused('UNWANTED', 'the listing is known, older or has no room')
  return read
}

export function forged({ record }: ReadEntry): { ok: false } & ListingRefusal {
  return refused('FORGED', `the signature is not ${record.seller_id}'s`)
}

/** Reads an envelope without checking its contents, for example a row that was checked before it was stored. */
export function readListing(envelope: Uint8Array): ReadListing {
  if (envelope.length > LISTING_BYTES_MAX) {
    return refused('TOO_LARGE', `a listing of ${envelope.length} bytes, limit ${LISTING_BYTES_MAX}`)
  }
  try {
    const { peerId, payload, check } = readEnvelope(envelope)
    const record = decodeRecord(payload)
    if (record.seller_id !== peerId) return refused('NOT_OWNER', `signed by ${peerId} for ${record.seller_id}`)
    return { ok: true, entry: { record, hash: hashOf(payload), bytes: envelope.length }, check }
  } catch (error) {
    return refused('MALFORMED', reasonOf(error))
  }
}

/**
 * Signs a listing of our own.
 *
 * @throws CodedError `LISTING_INVALID`, with the reason, if no other node would accept the listing
 */
export async function sealListing(
  record: ListingRecord,
  identity: Identity,
): Promise<{ entry: ReadEntry; envelope: Uint8Array }> {
  const encoded = z.safeEncode(ListingRecord, record)
  if (!encoded.success) throw unlistable(record, firstIssue(encoded.error))
  const envelope = await seal(record, Buffer.from(JSON.stringify(encoded.data)), identity)
  const read = readListing(envelope)
  const refusal = read.ok ? refuseContents(read.entry.record) : read
  if (!read.ok || refusal !== undefined) throw unlistable(record, refusal?.reason ?? 'it cannot be read')
  return { entry: read.entry, envelope }
}

async function seal(record: ListingRecord, payload: Uint8Array, identity: Identity): Promise<Uint8Array> {
  try {
    return await sealEnvelope(payload, identity)
  } catch (cause) {
    throw unlistable(record, reasonOf(cause), cause)
  }
}

function unlistable({ name }: ListingRecord, reason: string, cause?: unknown): CodedError<'LISTING_INVALID'> {
  return new CodedError('LISTING_INVALID', `agent ${name} cannot be listed: ${reason}`, { cause })
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function decodeRecord(payload: Uint8Array): ListingRecord {
  const parsed = ListingRecord.safeParse(JSON.parse(utf8.decode(payload)))
  if (parsed.success) return parsed.data
  throw new RangeError(firstIssue(parsed.error))
}

function firstIssue({ issues: [issue] }: z.ZodError): string {
  return `${issue?.path.join('.')}: ${issue?.message}`
}

/** Hashes only the signed bytes. Bytes that a stranger adds around them must not make a new version. */
function hashOf(payload: Uint8Array): string {
  return hash('sha256', payload, 'hex')
}

/** Checks everything that does not depend on the current time. */
function refuseContents(record: ListingRecord): ListingRefusal | undefined {
  const { id, seller_id, name, network, asset, price_atomic, protocols, addrs } = record

  // D5: the id derives from the seller and the name, so nobody can take another seller's id.
  if (id !== agentId(seller_id, name)) return inconsistent(`${id} is not the id of ${name} at ${seller_id}`)

  // D7: the maximum price.
  if (price_atomic > PRICE_ATOMIC_MAX) return inconsistent('the price is over 1000000 USDC')

  // T14: the asset must be USDC on the listing's network.
  if (!sameAddress(asset, assetOf(network)?.address ?? '')) return inconsistent(`${asset} is not USDC on ${network}`)

  // D6: a paid agent speaks only x402, a free agent both protocols. Further protocols may be added.
  if (!protocols.includes(X402_PROTOCOL)) return inconsistent(`protocols lack ${X402_PROTOCOL}`)
  const free = price_atomic === 0n
  if (free !== protocols.includes(MARKETPLACE_PROTOCOL)) {
    return inconsistent(`${free ? 'a free agent speaks' : 'a paid agent does not speak'} ${MARKETPLACE_PROTOCOL}`)
  }

  // A listing sends buyers only to its own seller.
  const lost = addrs.find((address) => !address.startsWith('/') || !address.endsWith(`/p2p/${seller_id}`))
  if (lost !== undefined) return inconsistent(`${lost} is no address of ${seller_id}`)

  // D9. One clock wrote all three times, so they agree even if that clock is wrong.
  const { version, updated_at, expires_at } = record
  if (updated_at > version) return inconsistent('updated_at is after version')
  if (expires_at <= updated_at) return inconsistent('it expires before it begins')
  if (expires_at > updated_at + LISTING_TTL_MS + LISTING_SKEW_MS) return inconsistent('it lives longer than 24 hours')
  return undefined
}

function refuseTimes(record: ListingRecord, now: UnixMs): ListingRefusal | undefined {
  // `updated_at` is not later than `version`: checked in `refuseContents`.
  if (record.version > now + LISTING_SKEW_MS) {
    return { error: 'FUTURE', reason: `version ${record.version} is ${record.version - now} ms ahead of our clock` }
  }
  if (now >= keptUntil(record)) return { error: 'EXPIRED', reason: `version ${record.version} can no longer be valid` }
  return undefined
}

function inconsistent(reason: string): ListingRefusal {
  return { error: 'INCONSISTENT', reason }
}

function refused(error: ListingRefusalCode, reason: string): { ok: false } & ListingRefusal {
  return { ok: false, error, reason }
}
