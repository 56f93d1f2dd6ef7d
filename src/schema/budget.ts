import * as z from 'zod'
import { PriceText } from './amount.ts'
import { NetworkKind } from './network-kind.ts'

const amount = (description: string) => PriceText.nullable().optional().meta({ description })
const Party = z
  .string()
  .trim()
  .regex(/^[A-Za-z0-9:._-]{1,256}$/, 'is not a peer id, a DID or the id of an agent')
/** Sellers and agents in an allow or deny list. Bounds the check of each purchase. */
export const PARTIES_MAX = 1_000
const Parties = z.array(Party).max(PARTIES_MAX)

/** The body of PUT /budget. Absent fields stay unchanged. */
export const ChangeBudget = z
  .strictObject({
    per_call: amount('the most that one call may cost, in USDC as decimal text; null: no limit'),
    per_seller: amount('the most that one seller may be paid per UTC day'),
    per_day: amount('the most that may be spent per UTC day'),
    per_month: amount('the most that may be spent per UTC month'),
    auto_approve_below: amount('a call that costs this or more waits for an approval; null: no call waits'),
    allow: Parties.optional().meta({ description: 'if not empty, the node buys only from these sellers and agents' }),
    deny: Parties.optional().meta({
      description: 'sellers (peer id or DID) and agents (id) that the node never buys from',
    }),
  })
  .meta({ id: 'ChangeBudget', description: 'New limits. Omitted limits stay as they are. null removes a limit.' })
export type ChangeBudget = z.output<typeof ChangeBudget>

const nullable = z.string().nullable()
const limit = (description: string) => nullable.meta({ description: `${description}; null: no limit` })

export const BudgetRecord = z
  .object({
    network: z.string(),
    network_kind: NetworkKind,
    asset: z.string(),
    symbol: z.string(),
    per_call: limit('the most that one call may cost'),
    per_call_atomic: nullable,
    per_seller: limit('the most that one seller may be paid per UTC day'),
    per_seller_atomic: nullable,
    per_day: limit('the most that may be spent per UTC day'),
    per_day_atomic: nullable,
    per_month: limit('the most that may be spent per UTC month'),
    per_month_atomic: nullable,
    auto_approve_below: nullable.meta({
      description: 'a call that costs this or more waits for an approval; null: no call waits',
    }),
    auto_approve_below_atomic: nullable,
    paid_today: z
      .string()
      .meta({ description: 'the chain shows these payments; payments that were not charged do not count' }),
    paid_today_atomic: z.string(),
    paid_month: z.string(),
    paid_month_atomic: z.string(),
    held_today: z.string().meta({ description: 'signed, and may still be charged' }),
    held_today_atomic: z.string(),
    held_month: z.string(),
    held_month_atomic: z.string(),
    spent_today: z.string().meta({ description: 'paid plus held: the sum that counts against the limits' }),
    spent_today_atomic: z.string(),
    spent_month: z.string(),
    spent_month_atomic: z.string(),
    left_today: nullable.meta({ description: 'left under per_day and per_month, the smaller of both; null: no limit' }),
    left_today_atomic: nullable,
    left_month: nullable,
    left_month_atomic: nullable,
    day: z.string().meta({ description: 'today in UTC' }),
    allow: z.array(z.string()),
    deny: z.array(z.string()),
  })
  .meta({ id: 'Budget', description: 'What this node may spend, and what is left.' })
export type BudgetRecord = z.infer<typeof BudgetRecord>
