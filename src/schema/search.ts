import * as z from 'zod'
import { PriceText } from './amount.ts'
import { PAGE_LISTINGS_MAX, QUERY_LENGTH_MAX, QUERY_TAGS_MAX } from './limits.ts'
import { networks, PeerId } from './primitives.ts'

export const agentSorts = ['rank', 'price', 'newest'] as const

/** A boolean in a query. */
export const Switch = z
  .codec(z.enum(['true', 'false']), z.boolean(), {
    decode: (text) => text === 'true',
    encode: (on) => (on ? 'true' : 'false'),
  })
  .optional()
const TagText = z.string().trim().min(1).max(32)
const splitTags = (given: string | string[]) =>
  (typeof given === 'string' ? [given] : given).flatMap((text) => text.split(',')).filter((tag) => tag.trim() !== '')
const PageLimit = z
  .codec(z.string().regex(/^[1-9][0-9]{0,2}$/, `is no whole number from 1 to ${PAGE_LISTINGS_MAX}`), z.int(), {
    decode: Number,
    encode: String,
  })
  .refine((limit) => limit <= PAGE_LISTINGS_MAX, `is more than ${PAGE_LISTINGS_MAX}`)

const AgentInclude = z.enum(['stats']).optional().meta({
  description:
    '`stats`: what this node has measured of each agent, and its reputation on the chain where that is known',
})
export const OneAgentQuery = z.strictObject({ include: AgentInclude })

/** Parameters of the lists of agents. An absent parameter does not filter. */
export const AgentQuery = z.strictObject({
  q: z
    .string()
    .max(QUERY_LENGTH_MAX, `is longer than ${QUERY_LENGTH_MAX} characters`)
    .optional()
    .meta({ description: 'what the agent is to do, or its name: plain words, no syntax' }),
  tags: z
    .union([z.string(), z.array(z.string())])
    .transform(splitTags)
    .pipe(z.array(TagText).max(QUERY_TAGS_MAX, `names more than ${QUERY_TAGS_MAX} tags`))
    .optional()
    .meta({ description: 'tags the agent must have, all of them: with commas, or the parameter several times' }),
  max_price: PriceText.optional().meta({ description: 'the most it may cost, in USDC' }),
  free: Switch.meta({ description: 'true: only free agents; false: only paid ones' }),
  protocol: z.string().min(1).max(128).optional().meta({ description: 'a protocol its seller speaks' }),
  seller_id: PeerId.optional(),
  network: z
    .enum(['own', 'any', ...networks])
    .optional()
    .meta({
      description:
        'only agents sold on this network: `own`, which this node can buy, a CAIP-2 id, or `any`. A search finds `own` ' +
        'unless told otherwise; the plain list shows `any`, with `buyable` for each',
    }),
  online: Switch.meta({ description: 'true: only sellers known to be online; false: only those known not to be' }),
  sort: z
    .enum(agentSorts)
    .optional()
    .meta({ description: '`rank` (the default), `price` (the cheapest first) or `newest` (the latest met first)' }),
  limit: PageLimit.optional().meta({
    description: `listings in one answer; ${PAGE_LISTINGS_MAX} where none is given, which is the most`,
    type: 'integer',
    pattern: undefined,
    minimum: 1,
    maximum: PAGE_LISTINGS_MAX,
  }),
  cursor: z.string().max(512).optional().meta({
    description: 'where to go on: from the Link header (rel="next") of the answer before, with the same query',
  }),
  include: AgentInclude,
  explain: Switch.meta({ description: 'true: say of each listing why it stands where it does (sort=rank)' }),
})
export type AgentQuery = z.output<typeof AgentQuery>

/** A part of the market. */
export type AgentScope = 'all' | 'local' | 'discovered'
