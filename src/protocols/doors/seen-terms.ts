import * as z from 'zod'
import { parseJson } from '../../lib/json.ts'
import { differenceFromListing, type ListedTerms } from '../../payments/requirements.ts'
import { PaymentRequirements } from '../../schema/payment.ts'

/** The part of `PaymentRequired` of x402 v2 that a buyer relies on. */
const PaymentRequired = z.object({
  x402Version: z.literal(2),
  resource: z.object({ url: z.string().max(2048) }),
  accepts: z.array(z.unknown()).min(1).max(16),
  extensions: z.record(z.string(), z.unknown()).optional(),
})

type SeenTerms = {
  /** How they differ from what is listed. */
  difference: string | undefined
  /** True if catalogs of x402 may list the address. */
  isForCatalogs: boolean
}

/** Compares what an address asks for with what its seller has listed. */
export function seenTerms(header: string | undefined, url: string, listed: ListedTerms): SeenTerms {
  const different = (difference: string): SeenTerms => ({ difference, isForCatalogs: false })
  if (header === undefined) return different('has no header PAYMENT-REQUIRED')
  const read = PaymentRequired.safeParse(parseJson(Buffer.from(header, 'base64')))
  if (!read.success) return different('has a header PAYMENT-REQUIRED that is not x402 version 2')
  const { resource, accepts, extensions = {} } = read.data
  const isForCatalogs = Object.hasOwn(extensions, 'bazaar')
  if (resource.url !== url) return { difference: 'names another address than public.url says', isForCatalogs }
  const asked = PaymentRequirements.safeParse(accepts[0])
  if (!asked.success) return { difference: 'asks for a payment that is not of scheme exact', isForCatalogs }
  return { difference: differenceFromListing(asked.data, listed), isForCatalogs }
}
