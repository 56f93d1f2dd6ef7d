import * as z from 'zod'
import { PriceText } from './amount.ts'
import { PAGE_LISTINGS_MAX, QUERY_LENGTH_MAX, TAG_LENGTH_MAX, TAGS_MAX } from './limits.ts'
import { networks, PeerId } from './primitives.ts'

export const agentSorts = ['rank', 'price', 'newest'] as const

/** A boolean in a query. */
export const Switch = z
  .codec(z.enum(['true', 'false']), z.boolean(), {
    decode: (text) => text === 'true',
    encode: (on) => (on ? 'true' : 'false'),
  })
  .optional()
const TagText = z.string().trim().min(1).max(TAG_LENGTH_MAX)
const splitTags = (given: string | string[]) =>
  (typeof given === 'string' ? [given] : given).flatMap((text) => text.split(',')).filter((tag) => tag.trim() !== '')
const PageLimit = z
  .codec(z.string().regex(/^[1-9][0-9]{0,2}$/, `is not a whole number from 1 to ${PAGE_LISTINGS_MAX}`), z.int(), {
    decode: Number,
    encode: String,
  })
  .refine((limit) => limit <= PAGE_LISTINGS_MAX, `is more than ${PAGE_LISTINGS_MAX}`)

const AgentInclude = z.enum(['stats']).optional().meta({
  description: '`stats`: own measurements of each agent, and its reputation on the chain if known',
})
export const OneAgentQuery = z.strictObject({ include: AgentInclude })

/** Parameters of the lists of agents. An absent parameter does not filter. */
export const AgentQuery = z.strictObject({
  q: z
    .string()
    .max(QUERY_LENGTH_MAX, `is longer than ${QUERY_LENGTH_MAX} characters`)
    .optional()
    .meta({ description: 'the task in plain words, or the name of an agent; no query syntax' }),
  tags: z
    .union([z.string(), z.array(z.string())])
    .transform(splitTags)
    .pipe(z.array(TagText).max(TAGS_MAX, `has more than ${TAGS_MAX} tags`))
    .optional()
    .meta({ description: 'tags that the agent must have (all of them): separated by commas, or repeat the parameter' }),
  max_price: PriceText.optional().meta({ description: 'highest price in USDC' }),
  free: Switch.meta({ description: 'true: only free agents; false: only paid ones' }),
  protocol: z.string().min(1).max(128).optional().meta({ description: 'a protocol that the seller speaks' }),
  seller_id: PeerId.optional(),
  network: z
    .enum(['own', 'any', ...networks])
    .optional()
    .meta({
      description:
        'only agents sold on this network: `own` (agents that this node can buy), a CAIP-2 id, or `any`. The default is `own` ' +
        'for a search, and `any` for the plain list, which has `buyable` for each agent',
    }),
  online: Switch.meta({
    description:
      'true: only agents whose seller is known to be online; false: only agents whose seller is known to be offline',
  }),
  sort: z
    .enum(agentSorts)
    .optional()
    .meta({ description: '`rank` (the default), `price` (cheapest first) or `newest` (newest first)' }),
  limit: PageLimit.optional().meta({
    description: `listings in one answer; default and maximum: ${PAGE_LISTINGS_MAX}`,
    type: 'integer',
    pattern: undefined,
    minimum: 1,
    maximum: PAGE_LISTINGS_MAX,
  }),
  cursor: z.string().max(512).optional().meta({
    description:
      'cursor of the next page, from the Link header (rel="next") of the previous answer; keep the same query',
  }),
  include: AgentInclude,
  explain: Switch.meta({ description: 'true: explain the rank of each listing (sort=rank)' }),
})
export type AgentQuery = z.output<typeof AgentQuery>

export type AgentScope = 'all' | 'local' | 'discovered'
