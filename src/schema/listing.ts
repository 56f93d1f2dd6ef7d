import * as z from 'zod'
import { AgentDescription, AgentTags, Streaming, streamingModes, wellFormed } from './agent.ts'
import { Price } from './amount.ts'
import { ChannelTerms } from './channel.ts'
import { MODEL_LENGTH_MAX, NAME_LENGTH_MAX, RUN_SECONDS_MAX } from './limits.ts'
import { ListedPricing, Pricing } from './pricing.ts'
import { Address, AgentId, AtomicAmount, Network, PeerId } from './primitives.ts'
import { AgentStats, Reputation } from './standing.ts'

/** Limit of a signed listing on the wire, in bytes. */
export const LISTING_BYTES_MAX = 16 * 1024
/** How long a listing lives unless its owner refreshes it (D9). */
export const LISTING_TTL_MS = 24 * 60 * 60 * 1000
/** How far an owner's clock may run ahead of ours. */
export const LISTING_SKEW_MS = 2 * 60 * 1000

/** The signals that rank a search. */
export const rankingSignals = ['text', 'presence', 'price', 'freshness', 'measured', 'look_alike'] as const

const UnixMs = z.int().min(0).max(8.64e15)

/** Listings are judged alike by nodes of all versions, so this is less strict than `AgentName`. */
const ListedName = z
  .string()
  .trim()
  .min(1, 'is empty')
  .max(NAME_LENGTH_MAX, `is longer than ${NAME_LENGTH_MAX} characters`)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what a name must not hold
  .regex(/^[^\u0000-\u001f\u007f]*$/, 'contains control characters')
  .refine(wellFormed, 'is not well-formed Unicode')

/** Schemes of x402. Without them an agent is paid for by `exact`, and on a channel where its seller takes them. */
const Schemes = z.array(z.string().max(64)).min(1).max(8)

export const SellerName = z.string().max(40).refine(wellFormed)

/** What an owner signs: the payload of a listing's envelope. A delisted record is a tombstone. Times are Unix ms. */
export const ListingRecord = z.object({
  v: z.literal(1),
  id: AgentId,
  seller_id: PeerId,
  state: z.enum(['active', 'delisted']),
  /** The higher version wins. The owner never decreases it, even after a restart. */
  version: UnixMs,
  updated_at: UnixMs,
  expires_at: UnixMs,
  name: ListedName,
  description: AgentDescription,
  price_atomic: AtomicAmount,
  model: z.string().max(MODEL_LENGTH_MAX).refine(wellFormed).optional(),
  tags: AgentTags,
  protocols: z.array(z.string().max(128)).max(8),
  network: Network,
  asset: Address,
  pay_to: Address,
  addrs: z.array(z.string().max(512)).max(16),
  token_id: z.string().max(80).refine(wellFormed).optional(),
  /** The agent's time limit. A buyer signs no longer window than this limit plus 120 s (D51). */
  timeout_seconds: z.int().min(1).max(RUN_SECONDS_MAX).optional(),
  // Only for a paid agent. An unknown value of a later version must not invalidate the listing.
  streaming: z.enum(streamingModes).optional().catch(undefined),
  /** What the seller wants of payment channels. Without it, it takes none. */
  channel: ChannelTerms.optional().catch(undefined),
  /** How the agent can be paid for, if not by `exact` alone. */
  schemes: Schemes.optional().catch(undefined),
  /** Prices by use, for calls on channels. `price_atomic` is then the most that any call costs. */
  pricing: ListedPricing.optional().catch(undefined),
  /** The name that the seller's node gives itself. It proves nothing. */
  seller_name: SellerName.optional(),
})
export type ListingRecord = z.infer<typeof ListingRecord>

/** Why a listing has its place in a search: the points of each signal. */
export const Ranking = z
  .object({
    score: z.number(),
    reasons: z.array(
      z.object({
        signal: z.enum(rankingSignals),
        points: z.number(),
        detail: z.string().meta({ description: 'explanation for people' }),
      }),
    ),
  })
  .meta({ id: 'Ranking', description: 'How the rank of a listing was computed. The points add up to the score.' })
export type Ranking = z.infer<typeof Ranking>

/** A listing as the API shows it (D6). */
export const Listing = z
  .object({
    id: AgentId,
    name: z.string(),
    description: z.string(),
    price: Price,
    price_atomic: z.string(),
    model: z.string().optional(),
    tags: z.array(z.string()),
    protocols: z.array(z.string()),
    network: Network,
    asset: Address,
    pay_to: Address,
    seller_id: PeerId,
    seller_did: z.string(),
    seller_name: z.string().optional().meta({
      description: 'name that the seller chose; names are not unique, only `seller_id` identifies the seller',
    }),
    addrs: z.array(z.string()),
    token_id: z.string().optional(),
    timeout_seconds: z.int().optional().meta({ description: 'the time limit of one run' }),
    streaming: Streaming.optional(),
    channel: ChannelTerms.optional(),
    schemes: Schemes.optional().meta({
      description: 'how the agent can be paid for; without `exact`: on payment channels only',
    }),
    pricing: Pricing.optional().meta({
      description: 'prices by use, for calls on a payment channel; `price` is the most that any call costs',
    }),
    version: z.int(),
    updated_at: z.iso.datetime(),
    expires_at: z.iso.datetime(),
    local: z.boolean(),
    buyable: z.boolean().meta({
      description: 'false: the seller is paid on another network than this node uses, so a purchase is refused',
    }),
    imported: z.object({ agent_id: z.string() }).optional().meta({
      description:
        'present only if the operator of this node imported the agent: not signed, known only to this node; `agent_id` is the id that the seller uses',
    }),
    // What this node knows about the listing beyond the seller's own data.
    online: z.boolean().optional().meta({ description: 'whether the seller answers; absent if not known' }),
    latency_ms: z.number().optional().meta({ description: 'round-trip time to the seller' }),
    first_seen: z.iso.datetime().optional().meta({ description: 'when this node first saw the listing' }),
    look_alike_of: z.object({ id: AgentId, name: z.string(), seller_id: PeerId }).optional().meta({
      description: 'a similar listing of another seller that this node did not see later: compare the sellers',
    }),
    stats: AgentStats.optional().meta({ description: 'with ?include=stats' }),
    reputation: Reputation.optional().meta({
      description: 'only with ?include=stats, for an agent with a token, after the node has asked the chain',
    }),
    ranking: Ranking.optional().meta({ description: 'with ?explain=true' }),
  })
  .meta({ id: 'Listing', description: 'An agent on the market.' })
export type Listing = z.infer<typeof Listing>

/** True if no call can be paid for by itself. */
export function isOnChannelsOnly({ schemes }: Pick<Listing, 'schemes'>): boolean {
  return schemes !== undefined && !schemes.includes('exact')
}
