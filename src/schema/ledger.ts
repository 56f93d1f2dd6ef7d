import * as z from 'zod'
import { AgentRef, Canceled } from './api.ts'
import { Book } from './book.ts'
import { Door } from './door.ts'
import { cursorOf, Limit, seekFields } from './page.ts'
import { PaymentRecord } from './payment-record.ts'

/** What a node has earned and spent, and what its agents did: reads for its operator. */

export const PaymentRecords = z.array(PaymentRecord)

export const PaymentParams = z.strictObject({
  id: z.string().regex(/^0x[0-9a-fA-F]{64}$/, 'is not a payment id: 0x and 64 hex digits'),
})
/** The end of a page of two merged lists: a number in each list. */
export const LedgerCursor = cursorOf(/^[0-9]{1,16}\.[0-9]{1,16}$/)
export const PaymentQuery = z.strictObject({
  direction: PaymentRecord.shape.direction.optional(),
  state: PaymentRecord.shape.state.optional(),
  book: Book.optional(),
  limit: Limit,
  cursor: LedgerCursor.optional(),
})
export type PaymentQuery = z.output<typeof PaymentQuery>

const Sum = z.object({
  today: z.string(),
  today_atomic: z.string(),
  month: z.string().meta({ description: 'the last 30 days, including today' }),
  month_atomic: z.string(),
  total: z.string(),
  total_atomic: z.string(),
})

const Open = z.object({ amount: z.string(), amount_atomic: z.string(), payments: z.int() })

const Activity = {
  earned: z.string(),
  earned_atomic: z.string(),
  paid: z.string(),
  paid_atomic: z.string(),
  executions: z.int(),
  failed: z.int(),
} as const

/** Days and hours are UTC, and only those with activity. Amounts are USDC as decimal text. */
export const Stats = z
  .object({
    earned: Sum.meta({ description: 'settled; counted on the day of the call' }),
    owed: Open.meta({ description: 'the work is done, and settlement is still running' }),
    lost: Open.meta({ description: 'the work was done and never paid' }),
    refused: Open.meta({ description: 'never paid, and nothing ran' }),
    paid: Sum.meta({
      description: 'the chain shows the transfer, or a payment channel covers it; counted on the day of the signature',
    }),
    held: Open.meta({ description: 'signed, and may still be charged' }),
    not_charged: Open.meta({ description: 'signed, and can no longer be charged' }),
    refunded: Open.meta({ description: 'paid back by the seller, whether this node was seller or buyer' }),
    days: z.array(z.object({ day: z.string(), ...Activity, bought: z.int() })),
    hours: z.array(z.object({ hour: z.string(), ...Activity })).meta({ description: 'hours of the last two days' }),
    doors: z
      .array(
        z.object({
          door: Door,
          calls: z.int().meta({ description: 'paid runs, also those that are not settled yet' }),
          earned: z.string(),
          earned_atomic: z.string(),
        }),
      )
      .meta({ description: 'what was sold, by the way in which it was bought' }),
    agents: z.array(
      z.object({
        agent_id: z.string(),
        name: z.string().optional(),
        calls: z.int(),
        failed: z.int(),
        earned: z.string(),
        earned_atomic: z.string(),
        p50_ms: z.number().optional(),
        p95_ms: z.number().optional(),
        last_at: z.string().optional(),
      }),
    ),
  })
  .meta({ id: 'Stats', description: 'What this node earned, spent and executed.' })
export type Stats = z.infer<typeof Stats>
/** Days in one answer of GET /stats: a leap year. */
export const STATS_DAYS_MAX = 366
export const StatsQuery = z.strictObject({
  days: z.coerce
    .number()
    .int()
    .min(1)
    .max(STATS_DAYS_MAX)
    .default(30)
    .meta({ description: 'number of days to return' }),
})

export const ExecutionRecord = z
  .object({
    id: z.string(),
    agent_id: z.string(),
    agent_name: z.string().optional(),
    caller_id: z.string().meta({ description: 'DID of the caller, proved by its connection, or `local`' }),
    correlation_id: z.string(),
    input: z.string().meta({ description: 'data from another party, never to be trusted' }),
    output: z.string().optional(),
    error: z.string().optional(),
    canceled: Canceled,
    payment_id: z.string().optional(),
    created_at: z.string(),
    duration_ms: z.int(),
  })
  .meta({ id: 'ExecutionRecord', description: 'One run of an agent of this node for a caller.' })
export type ExecutionRecord = z.infer<typeof ExecutionRecord>
export const ExecutionQuery = z.strictObject({
  agent_id: AgentRef.optional(),
  failed: z
    .enum(['true', 'false'])
    .transform((text) => text === 'true')
    .optional()
    .meta({ description: 'true: only failed executions; false: only executions that did not fail' }),
  ...seekFields,
})
export const ExecutionRecords = z.array(ExecutionRecord)
