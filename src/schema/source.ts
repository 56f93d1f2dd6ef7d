import * as z from 'zod'
import { PriceText } from './amount.ts'
import { ENTRIES_MAX, ENTRIES_SHOWN, QUERY_LENGTH_MAX } from './limits.ts'
import { Switch } from './search.ts'
import { SourceName } from './source-setting.ts'
import { AgentStats } from './standing.ts'

/** No id of an agent looks like it: those have letters and the digits 2 to 7 only. */
const EntryId = z
  .string()
  .regex(/^url_[0-9a-f]{40}$/, 'is not the id of an entry: GET /sources/entries shows them')
  .meta({ description: 'id of the entry at this node: `url_` and the hash of method and URL' })

const states = ['unchecked', 'live', 'changed', 'dead', 'unpayable'] as const

const Terms = z
  .object({
    price: z.string().meta({ description: 'USDC as decimal text' }),
    price_atomic: z.string(),
    asset: z.string(),
    network: z.string(),
    pay_to: z.string(),
  })
  .meta({ id: 'SourceTerms', description: 'What one call costs, and who is paid.' })
export type SourceTerms = Omit<z.infer<typeof Terms>, 'price_atomic'>

export const SourceEntry = z
  .object({
    id: EntryId,
    origin: z.literal('catalog').meta({ description: 'no seller signed this entry' }),
    sources: z
      .array(SourceName)
      .meta({ description: 'the catalogs that have the entry with these terms, in the order of config.yaml' }),
    type: z.enum(['http', 'mcp']),
    method: z.string(),
    url: z.string(),
    tool: z.string().optional().meta({ description: 'MCP only' }),
    name: z.string().optional(),
    description: z.string().optional(),
    tags: z.array(z.string()),
    listed: Terms.partial().optional().meta({ description: 'what the catalog says; nobody signed it' }),
    last_updated: z.string().optional().meta({ description: 'as the catalog says' }),
    claims: z
      .object({ payers_30_days: z.int().optional(), calls_30_days: z.int().optional() })
      .optional()
      .meta({ description: 'figures of the catalog, which this node cannot check' }),
    state: z.enum(states).meta({
      description:
        '`live`: it answered a request without payment with terms that this node can pay, and not above what the catalog says; ' +
        '`changed`: its terms differ from the catalog; `dead`: no such answer; `unpayable`: other network, asset or kind; ' +
        '`unchecked`: not asked yet',
    }),
    buyable: z.boolean().meta({ description: 'true only for the state `live`' }),
    reason: z.string().optional().meta({ description: 'why it is not buyable' }),
    checked_at: z.string().optional(),
    latency_ms: z.int().optional().meta({ description: 'time of its answer without payment' }),
    expected: Terms.omit({ price_atomic: true })
      .optional()
      .meta({ description: 'its live terms, to be sent with a purchase, which is refused if they differ then' }),
    stats: AgentStats.optional().meta({ description: 'own measurements: only orders of this node count' }),
    look_alike_of: z
      .object({ id: z.string(), name: z.string(), seller_id: z.string() })
      .optional()
      .meta({ description: 'a signed listing that people may mistake this entry for' }),
    score: z.number(),
  })
  .meta({ id: 'SourceEntry', description: 'A resource that a catalog names. It is no listing: no seller signed it.' })
export type SourceEntry = z.infer<typeof SourceEntry>

const SourceReport = z
  .object({
    name: SourceName,
    ok: z.boolean(),
    entries: z.int().meta({ description: 'entries that fit, before the limit' }),
    left_out: z.int().optional().meta({ description: 'items that are not valid, duplicates, or agents of the market' }),
    age_seconds: z.int().optional().meta({ description: 'age of the answer, if it was kept' }),
    error: z.string().optional().meta({ description: 'why the catalog gave nothing, or nothing newer' }),
  })
  .meta({ id: 'SourceReport', description: 'What one catalog gave to a search.' })
export type SourceReport = z.infer<typeof SourceReport>

export const SourceResults = z
  .object({ entries: z.array(SourceEntry), sources: z.array(SourceReport), notice: z.string() })
  .meta({ id: 'SourceResults', description: 'Entries of catalogs, apart from the listings of the market.' })
export type SourceResults = z.infer<typeof SourceResults>

export const EntryQuery = z.strictObject({
  q: z.string().max(QUERY_LENGTH_MAX, `is longer than ${QUERY_LENGTH_MAX} characters`).optional().meta({
    description: 'the task in plain words; it is sent to the catalogs',
  }),
  max_price: PriceText.optional().meta({ description: 'highest price in USDC' }),
  source: SourceName.optional().meta({ description: 'only this catalog' }),
  probe: Switch.meta({
    description: 'true: ask the best entries without payment, so that they can be shown as buyable',
  }),
  limit: z
    .codec(z.string().regex(/^[1-9][0-9]?$/, `is not a whole number from 1 to ${ENTRIES_MAX}`), z.int(), {
      decode: Number,
      encode: String,
    })
    .refine((limit) => limit <= ENTRIES_MAX, `is more than ${ENTRIES_MAX}`)
    .optional()
    .meta({
      description: `entries in the answer; default: ${ENTRIES_SHOWN}`,
      type: 'integer',
      pattern: undefined,
      minimum: 1,
      maximum: ENTRIES_MAX,
    }),
})
export type EntryQuery = z.output<typeof EntryQuery>

export const SourceParams = z.strictObject({ name: z.string().min(1).max(100) })
export const EntryParams = z.strictObject({ id: z.string().min(1).max(100) })

export const Source = z
  .object({
    name: SourceName,
    url: z.string().meta({ description: 'without path: a path may hold a key' }),
    state: z.enum(['unasked', 'ok', 'failed']),
    way: z
      .enum(['search', 'list'])
      .optional()
      .meta({ description: 'how the catalog is read: by its search, or by its list' }),
    allow_private: z.boolean(),
    asked_at: z.string().optional(),
    latency_ms: z.int().optional(),
    answered_at: z.string().optional().meta({ description: 'time of the last answer that could be read' }),
    failures: z.int().meta({ description: 'requests that failed since the node started' }),
    entries: z.int().optional().meta({ description: 'valid entries in the last answer' }),
    error: z.string().optional(),
  })
  .meta({ id: 'Source', description: 'A catalog that this node searches.' })
export type Source = z.infer<typeof Source>
export const Sources = z.array(Source)
