import { randomUUID } from 'node:crypto'
import { isoTime } from '../lib/clock.ts'
import type { Catalog } from '../listings/catalog.ts'
import { MarketError, unknownAgent } from '../listings/market-error.ts'
import { differenceFromListing } from '../payments/requirements.ts'
import type { FramedStream } from '../protocols/framed-stream.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { StreamPeer, StreamPool } from '../protocols/streams.ts'
import { askX402Price } from '../protocols/x402/client.ts'
import { isOnChannelsOnly, type Listing } from '../schema/listing.ts'
import { type PaymentRequirements, saysSettlesFirst } from '../schema/payment.ts'
import { pricingText } from '../schema/pricing.ts'
import type { QuoteOutput } from '../schema/tools.ts'
import type { Purchases } from '../store/purchases.ts'
import { type Budget, refusalOf } from './budget.ts'
import { amountsOf } from './budget-rules.ts'
import { checkBuyable, settlesFirstRefused } from './guard.ts'
import { atAnyProcess } from './processes-asked.ts'
import { onStream, type StreamLease } from './stream-lease.ts'

const ANSWER_TIMEOUT_MS = 20_000

type QuoteDeps = {
  catalog: Pick<Catalog, 'resolve'>
  streams: StreamPool
  callerDid: string
  budget: Pick<Budget, 'approvalFor' | 'limitsFor' | 'day'>
  purchases: Pick<Purchases, 'over' | 'standingOf'>
  /** True if this node may pay a seller that settles before its agent runs. Default: true (D45). */
  allowSettleFirst?: boolean | undefined
}

type PriceDemand = Awaited<ReturnType<typeof askX402Price>>
type PriceCall = { correlationId: string; resource: string; callerDid: string }

/**
 * Returns the seller's current price for one task, and whether this node would pay it. Pays nothing.
 *
 * @throws MarketError UNKNOWN_AGENT, NETWORK_MISMATCH, SELLER_UNREACHABLE; PeerError if the seller answers with an
 * error
 */
export async function quote(agentId: string, deps: QuoteDeps, outer: AbortSignal): Promise<QuoteOutput> {
  const listing = deps.catalog.resolve(agentId)
  if (listing === undefined) throw unknownAgent(agentId)
  checkBuyable(listing)
  const { id, price, network, asset, pay_to } = listing
  const listed = { amount: price, network, asset, payTo: pay_to }
  const costs = listing.pricing === undefined ? {} : { pricing: pricingText(listing.pricing) }
  if (listing.local || price === 0n) {
    const amount = listing.local ? 0n : price
    return { ...termsOf(id, { ...listed, amount }), source: 'listing', matches_listing: true, allowed: true }
  }
  if (isOnChannelsOnly(listing)) return { ...(await listedQuote(listing, listed, deps)), ...costs }
  const call = {
    correlationId: randomUUID(),
    resource: listing.imported?.agent_id ?? id,
    callerDid: deps.callerDid,
  }
  const seller = { peerId: listing.seller_id, addrs: listing.addrs }
  const asked = await askTerms(seller, call, deps.streams, outer)
  const { payment_requirements: requirements, challenge_expires_at } = asked
  const difference = differenceFromListing(requirements, listed)
  const wanted = { agentId: id, sellerId: listing.seller_id, amount: requirements.amount }
  const settlesFirst = saysSettlesFirst(requirements)
  const isForbidden = settlesFirst && deps.allowSettleFirst === false
  const ours = isForbidden ? settlesFirstRefused() : await refusalOf({ id: '', tokenId: undefined }, wanted, deps)
  const refusal = difference === undefined ? ours : undefined
  const needsApproval = refusal?.code === 'APPROVAL_REQUIRED'
  const reason = difference === undefined ? refusal?.message : `the seller ${difference}`
  return {
    ...termsOf(id, requirements),
    ...costs,
    source: 'seller',
    ...(isTime(challenge_expires_at) && { expires_at: isoTime(challenge_expires_at * 1000) }),
    matches_listing: difference === undefined,
    allowed: reason === undefined || needsApproval,
    ...(settlesFirst && { settles_first: true }),
    ...(needsApproval && { needs_approval: true }),
    ...(reason !== undefined && { reason }),
  }
}

/** The seller of an agent that is sold on channels only names no price for a single payment. */
async function listedQuote(
  { id, seller_id: sellerId }: Pick<Listing, 'id' | 'seller_id'>,
  listed: { amount: bigint; network: string; asset: string; payTo: string },
  deps: QuoteDeps,
): Promise<QuoteOutput> {
  const refusal = await refusalOf(
    { id: '', tokenId: undefined },
    { agentId: id, sellerId, amount: listed.amount },
    deps,
  )
  const needsApproval = refusal?.code === 'APPROVAL_REQUIRED'
  return {
    ...{ ...termsOf(id, listed), source: 'listing', matches_listing: true, on_channels_only: true },
    allowed: refusal === undefined || needsApproval,
    ...(needsApproval && { needs_approval: true }),
    ...(refusal !== undefined && { reason: refusal.message }),
  }
}

/** What a seller asks for one run. @throws MarketError SELLER_UNREACHABLE; PeerError from the seller */
export async function askPrice(
  seller: StreamPeer,
  call: PriceCall,
  streams: StreamPool,
  signal: AbortSignal,
): Promise<PaymentRequirements> {
  return (await askTerms(seller, call, streams, signal)).payment_requirements
}

async function askTerms(seller: StreamPeer, call: PriceCall, streams: StreamPool, outer: AbortSignal) {
  const signal = AbortSignal.any([outer, AbortSignal.timeout(ANSWER_TIMEOUT_MS)])
  const ask = (fresh: boolean, instead: FramedStream | undefined, use: (stream: FramedStream) => void) => {
    const price = ({ stream }: StreamLease) => {
      use(stream)
      return askX402Price(stream, call, signal)
    }
    return onStream({ seller, streams, fresh, instead }, price, signal)
  }
  // A pooled stream may be dead. Nothing was bought, so ask again on a new stream, also at another process of the seller.
  return atAnyProcess<FramedStream, PriceDemand>(({ instead }, use) =>
    ask(false, instead, use).catch((error: unknown) =>
      error instanceof PeerError || signal.aborted ? Promise.reject(error) : ask(true, instead, use),
    ),
  ).catch((error: unknown) => {
    if (error instanceof PeerError) throw error
    outer.throwIfAborted()
    const reason = error instanceof Error ? error.message : 'no answer'
    throw new MarketError('SELLER_UNREACHABLE', `the seller cannot be reached: ${reason}`, { cause: error })
  })
}

function termsOf(id: string, terms: { amount: bigint; network: string; asset: string; payTo: string }) {
  const { amount, network, asset, payTo } = terms
  return { agent_id: id, ...amountsOf('price', amount), network, asset, pay_to: payTo }
}

/** A seller may send a number that is not a valid time. */
function isTime(seconds: number): boolean {
  return seconds >= 0 && seconds <= 8.64e12
}
