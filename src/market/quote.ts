import { isoTime } from '../lib/clock.ts'
import { differenceFromListing } from '../payments/requirements.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { StreamPool } from '../protocols/stream-pool.ts'
import { askX402Price } from '../protocols/x402/client.ts'
import { formatAmount, PRICE_DECIMALS } from '../schema/amount.ts'
import type { Listing } from '../schema/listing.ts'
import type { BudgetOutput, QuoteOutput } from '../schema/tools.ts'
import { MarketError } from './market-error.ts'
import { onStream } from './on-stream.ts'

const ANSWER_TIMEOUT_MS = 20_000

export type Limits = {
  /** Atomic units. */
  perCall: bigint
  /** Undefined: no limit. */
  perDay: bigint | undefined
  spentToday: bigint
  /** UTC. */
  day: string
}

export type QuoteDeps = {
  catalog: { resolve(id: string): Listing | undefined }
  streams: StreamPool
  callerDid: string
  newId(): string
  limits(): Limits
}

/**
 * What one task of an agent costs now, as its seller says, and whether this node would pay it. Pays nothing.
 *
 * @throws MarketError UNKNOWN_AGENT, SELLER_UNREACHABLE; PeerError as the seller answers
 */
export async function quote(agentId: string, deps: QuoteDeps, outer: AbortSignal): Promise<QuoteOutput> {
  const listing = deps.catalog.resolve(agentId)
  if (listing === undefined) throw new MarketError('UNKNOWN_AGENT', `no agent ${agentId} is known here`)
  const { id, price, network, asset, pay_to } = listing
  const listed = { amount: price, network, asset, payTo: pay_to }
  if (listing.local || price === 0n) {
    const amount = listing.local ? 0n : price
    return { ...termsOf(id, { ...listed, amount }), source: 'listing', matches_listing: true, allowed: true }
  }
  const signal = AbortSignal.any([outer, AbortSignal.timeout(ANSWER_TIMEOUT_MS)])
  const call = { correlationId: deps.newId(), resource: id, callerDid: deps.callerDid }
  const seller = { peerId: listing.seller_id, addrs: listing.addrs }
  const ask = (fresh: boolean) =>
    onStream(seller, deps.streams, signal, (stream) => askX402Price(stream, call, signal), { fresh })
  // A pooled stream may be dead: nothing was bought, so it is simply asked again.
  const asked = await ask(false)
    .catch((error: unknown) => (error instanceof PeerError || signal.aborted ? Promise.reject(error) : ask(true)))
    .catch((error: unknown) => {
      if (error instanceof PeerError) throw error
      outer.throwIfAborted()
      const reason = error instanceof Error ? error.message : 'no answer'
      throw new MarketError('SELLER_UNREACHABLE', `the seller cannot be reached: ${reason}`, { cause: error })
    })
  const { payment_requirements: requirements, challenge_expires_at } = asked
  const difference = differenceFromListing(requirements, listed)
  const reason = difference === undefined ? overLimit(requirements.amount, deps.limits()) : `the seller ${difference}`
  return {
    ...termsOf(id, requirements),
    source: 'seller',
    ...(isTime(challenge_expires_at) && { expires_at: isoTime(challenge_expires_at * 1000) }),
    matches_listing: difference === undefined,
    allowed: reason === undefined,
    ...(reason !== undefined && { reason }),
  }
}

export function budgetView(network: string, { perCall, perDay, spentToday, day }: Limits): BudgetOutput {
  const left = perDay === undefined ? undefined : perDay > spentToday ? perDay - spentToday : 0n
  return {
    network,
    currency: 'USDC',
    per_call: usdc(perCall),
    per_day: perDay === undefined ? 'no limit' : usdc(perDay),
    spent_today: usdc(spentToday),
    left_today: left === undefined ? 'no limit' : usdc(left),
    day,
  }
}

function termsOf(id: string, terms: { amount: bigint; network: string; asset: string; payTo: string }) {
  const { amount, network, asset, payTo } = terms
  return { agent_id: id, price: usdc(amount), price_atomic: amount.toString(), network, asset, pay_to: payTo }
}

function overLimit(amount: bigint, { perCall, perDay, spentToday }: Limits): string | undefined {
  if (amount > perCall) return `it costs more than one call may: ${usdc(perCall)} USDC (--max-price)`
  if (perDay === undefined || spentToday + amount <= perDay) return undefined
  return `it does not fit the daily budget: ${usdc(spentToday)} of ${usdc(perDay)} USDC are spent or reserved`
}

/** What a seller calls a time need not be one. */
function isTime(seconds: number): boolean {
  return seconds >= 0 && seconds <= 8.64e12
}

function usdc(amount: bigint): string {
  return formatAmount(amount, PRICE_DECIMALS)
}
