import { MarketError } from '../../listings/market-error.ts'
import { encodeHeader } from '../../protocols/doors/payment-header.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import type { SentTerms } from '../../schema/web-purchase.ts'

/** Characters of the header with a payment. Node's servers take 16 KiB of headers in all. */
const PAYMENT_LENGTH_MAX = 14_000
/** What a payment adds to what it echoes, at most: as base64. */
const SIGNED_LENGTH = 1_200

/**
 * The header that pays. The same payment and the same terms always make the same header: sellers know a payment again by it.
 */
export function paymentHeader(terms: SentTerms, { payload }: Pick<PaymentEnvelope, 'payload'>): Record<string, string> {
  const { signature, authorization } = payload!
  const { from, to, value, validAfter, validBefore, nonce } = authorization
  const texts = { value: `${value}`, validAfter: `${validAfter}`, validBefore: `${validBefore}` }
  const signed = { signature, authorization: { from, to, ...texts, nonce } }
  const { accepted, resource, extensions } = terms
  if (terms.version === 1) {
    const { scheme, network } = accepted
    return { 'x-payment': encodeHeader({ x402Version: 1, scheme, network, payload: signed }) }
  }
  const echoed = extensions == null ? {} : { extensions: withPaymentId(extensions, nonce) }
  const about = resource === undefined ? {} : { resource }
  return { 'payment-signature': encodeHeader({ x402Version: 2, ...about, accepted, payload: signed, ...echoed }) }
}

/** @throws MarketError TERMS_REFUSED before anything is signed, if the seller's terms do not fit a header */
export function checkHeaderLength({ accepted, resource, extensions }: SentTerms): void {
  const length = encodeHeader({ accepted, resource, extensions }).length + SIGNED_LENGTH
  if (length <= PAYMENT_LENGTH_MAX) return
  const why = `its terms are ${length} characters long with a payment, and the limit of a header is ${PAYMENT_LENGTH_MAX}`
  throw new MarketError('TERMS_REFUSED', `the seller cannot be paid: ${why}. Nothing was signed`)
}

/** Some sellers want a name for each payment. Its nonce is one. */
function withPaymentId(extensions: unknown, nonce: string): unknown {
  const named = (extensions as Record<string, { info?: { required?: unknown } } | undefined>)['payment-identifier']
  if (named?.info?.required !== true) return extensions
  const { info } = named
  return { ...(extensions as object), 'payment-identifier': { ...named, info: { ...info, id: nonce.slice(2) } } }
}
