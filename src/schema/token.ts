import * as z from 'zod'
import { nameUpTo } from './agent.ts'
import { PriceText } from './amount.ts'
import { scopes, scopeTexts } from './caller.ts'
import { NAME_LENGTH_MAX, TOKEN_DAYS_MAX } from './limits.ts'

const SCOPE_TEXT = scopes.map((scope) => `\`${scope}\` ${scopeTexts[scope]}`).join('; ')

const Budget = PriceText.meta({ description: 'the most that the token may spend in total, in USDC as decimal text' })
const PerDay = PriceText.meta({ description: 'the most that the token may spend per UTC day, in USDC as decimal text' })

export const TokenName = nameUpTo(NAME_LENGTH_MAX).meta({ description: 'who or what the token is for' })

/** The body of POST /tokens. */
export const CreateToken = z
  .strictObject({
    name: TokenName,
    scope: z.enum(scopes).meta({ description: SCOPE_TEXT }),
    budget: Budget.optional(),
    per_day: PerDay.optional(),
    expires_in_seconds: z
      .int()
      .min(60)
      .max(TOKEN_DAYS_MAX * 86_400)
      .optional()
      .meta({ description: 'default: the token is valid until it is revoked' }),
  })
  .refine(({ scope, budget, per_day }) => scope !== 'spend' || budget !== undefined || per_day !== undefined, {
    path: ['budget'],
    message: 'is missing: the scope spend needs budget, per_day, or both',
  })
  .refine(({ scope, budget, per_day }) => scope === 'spend' || (budget === undefined && per_day === undefined), {
    path: ['budget'],
    message: 'is allowed only with the scope spend',
  })
  .meta({ id: 'CreateToken' })
export type CreateToken = z.output<typeof CreateToken>

export const TokenParams = z.strictObject({
  id: z.string().min(1).max(64).meta({ description: 'id of the token, not the token itself' }),
})

const nullable = z.string().nullable()
export const TokenRecord = z
  .object({
    id: z.string(),
    name: z.string(),
    scope: z.enum(scopes).meta({ description: SCOPE_TEXT }),
    budget: nullable.meta({ description: 'the most that the token may spend in total; null: no limit of its own' }),
    budget_atomic: nullable,
    per_day: nullable,
    per_day_atomic: nullable,
    spent: z.string().meta({ description: 'paid or held in total' }),
    spent_atomic: z.string(),
    spent_today: z.string(),
    spent_today_atomic: z.string(),
    created_at: z.string(),
    expires_at: z.string().optional(),
    revoked_at: z.string().optional(),
  })
  .meta({ id: 'Token', description: 'An API token, without its secret.' })
export type TokenRecord = z.infer<typeof TokenRecord>
export const TokenRecords = z.array(TokenRecord)

export const CreatedToken = TokenRecord.extend({
  token: z.string().meta({ description: 'shown only in this answer; the node stores only a hash' }),
}).meta({ id: 'CreatedToken' })
export type CreatedToken = z.infer<typeof CreatedToken>
