import * as z from 'zod'
import { ListedPricing, type Pricing, Units } from '../schema/pricing.ts'

/** What a call of a metered agent was bought under, and what it has used. */
export type Metered = { pricing?: Pricing | undefined; units?: Units | undefined; cut?: true | undefined }

const Column = z.object({
  pricing: ListedPricing.optional(),
  units: Units.optional(),
  cut: z.literal(true).optional(),
})

/** A call as JSON for the column `metered`. Null: nothing of it was metered. */
export function packMetered({ pricing, units, cut }: Metered): string | null {
  if (pricing === undefined && units === undefined && cut === undefined) return null
  return JSON.stringify(z.encode(Column, { pricing, units, cut }))
}

export function unpackMetered(text: string | null): Metered {
  return text === null ? {} : z.decode(Column, JSON.parse(text) as z.input<typeof Column>)
}
