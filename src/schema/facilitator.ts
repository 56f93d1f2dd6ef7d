import * as z from 'zod'

/** The answer of an x402 v2 facilitator to POST /settle. Unknown fields are dropped. */
export const SettleAnswer = z.object({
  success: z.boolean(),
  transaction: z.string().max(200).nullish(),
  errorReason: z.string().max(200).nullish(),
  errorMessage: z
    .string()
    .transform((text) => text.slice(0, 4000))
    .nullish(),
})
export type SettleAnswer = z.infer<typeof SettleAnswer>

/** The answer to GET /supported. */
export const SupportedAnswer = z.object({
  kinds: z
    .array(z.object({ x402Version: z.number(), scheme: z.string().max(64), network: z.string().max(64) }))
    .max(1000),
})
