import { parseJsonBody } from '../../lib/json-body.ts'
import type { HttpAnswer } from '../../lib/pinned-http.ts'
import { MarketError } from '../../listings/market-error.ts'
import { type Asset, sameAddress } from '../../payments/assets.ts'
import { usdc } from '../../schema/amount.ts'
import { PAYMENT_WINDOW_SECONDS_MAX } from '../../schema/limits.ts'
import { networkText } from '../../schema/network-kind.ts'
import type { PaymentRequirements } from '../../schema/payment.ts'
import type { Hex } from '../../schema/primitives.ts'
import { type Expected, PaymentRequired, type SentTerms, WebOffer } from '../../schema/web-purchase.ts'
import { networkOfV1 } from '../../schema/x402-http.ts'

/** Offers of one payment request that are read. */
const OFFERS_MAX = 32
const NOBODY = `0x${'0'.repeat(40)}`

/** What a seller asks: as this node signs it, and as it goes back to the seller. */
export type LiveTerms = { requirements: PaymentRequirements; sent: SentTerms }

/** A payment request as it came, and the parts that this node reads. */
export type Demand = { raw: Readonly<Record<string, unknown>>; read: PaymentRequired }

/** Reads a payment request: of v2 in the header, or in the body as some servers have it; of v1 in the body. */
export function readDemand({ headers, body, isCut }: HttpAnswer): Demand | undefined {
  const header = headers['payment-required']
  const inHeader = header === undefined ? undefined : demandOf(decoded(header))
  return inHeader ?? (isCut ? undefined : demandOf(parsed(body)))
}

/** The JSON in a header of x402. Undefined: it is not base64 of the standard alphabet, or not JSON. */
export function decoded(header: string): unknown {
  return /^[A-Za-z0-9+/]+={0,2}$/.test(header) ? parsed(Buffer.from(header, 'base64')) : undefined
}

function parsed(bytes: Uint8Array): unknown {
  const json = parseJsonBody(bytes)
  return json.ok ? json.value : undefined
}

function demandOf(raw: unknown): Demand | undefined {
  const read = PaymentRequired.safeParse(raw)
  return read.success ? { raw: raw as Demand['raw'], read: read.data } : undefined
}

/**
 * Chooses the offer that this node can pay: scheme `exact` by EIP-3009, in its own USDC on its own network. What is signed
 * comes from the node's own table, and never from what the seller says of the asset (T14).
 *
 * @throws MarketError TERMS_REFUSED, NETWORK_MISMATCH
 */
export function chooseOffer({ raw, read }: Demand, asset: Asset, url: string): LiveTerms {
  const offers = (raw.accepts as unknown[]).slice(0, OFFERS_MAX)
  const judged = offers.map((offer) => judge(offer, read.x402Version, asset))
  const payable = judged.flatMap((one) => ('why' in one ? [] : [one]))
  const chosen = payable.find(({ requirements }) => requirements.extra === undefined) ?? payable[0]
  if (chosen === undefined) throw noOffer(judged as Refusal[], asset)
  const { resource, extensions } = raw
  const named = read.x402Version === 2 ? read.resource?.url : chosen.resource
  if (named !== undefined) checkResource(named, url)
  const { accepted, requirements } = chosen
  const echoed = read.x402Version === 2 && {
    // Some sellers write null for what they do not use.
    ...(resource != null && { resource }),
    ...(extensions != null && { extensions }),
  }
  return { requirements, sent: { version: read.x402Version, accepted, ...echoed } }
}

type PayableOffer = { accepted: SentTerms['accepted']; requirements: PaymentRequirements; resource: string | undefined }
type Refusal = { why: string; isForeign?: true }

function judge(raw: unknown, version: 1 | 2, asset: Asset): PayableOffer | Refusal {
  const read = WebOffer.safeParse(raw)
  if (!read.success) return { why: 'an offer that cannot be read' }
  const offer = read.data
  const { scheme, payTo, maxTimeoutSeconds, extra } = offer
  const network = version === 1 ? networkOfV1(offer.network) : offer.network
  const amount = version === 1 ? offer.maxAmountRequired : offer.amount
  if (scheme !== 'exact') return { why: `scheme ${shown(scheme)}` }
  if (network !== asset.network) return { why: `payment on ${shown(offer.network)}`, isForeign: true }
  const wrong = wrongAsset(offer, asset) ?? wrongTerms(payTo, maxTimeoutSeconds, amount)
  if (wrong !== undefined) return { why: wrong }
  const isUpfront = extra?.paymentFlow === 'upfront'
  return {
    accepted: raw as SentTerms['accepted'],
    resource: offer.resource,
    requirements: {
      ...{ scheme: 'exact', network: asset.network, amount: amount!, asset: asset.address, payTo, maxTimeoutSeconds },
      ...(isUpfront && { extra: { settles_first: true } }),
    },
  }
}

/** What a seller says of the asset must be true: a payment under another name or version never settles. */
function wrongAsset({ asset: named, extra }: WebOffer, asset: Asset): string | undefined {
  if (!sameAddress(named, asset.address)) return `an asset that is not ${asset.symbol}: ${shown(named)}`
  const { name = asset.name, version = asset.version, assetTransferMethod: method, paymentFlow: flow } = extra ?? {}
  if (name !== asset.name || version !== asset.version) {
    return `${asset.symbol} by the wrong name or version: ${shown(name)}, version ${shown(version)}`
  }
  if (method !== undefined && method !== 'eip3009') return `a transfer by ${shown(method)} and not by EIP-3009`
  if (flow !== undefined && flow !== 'authorization' && flow !== 'upfront') return `the payment flow ${shown(flow)}`
  return undefined
}

function wrongTerms(payTo: Hex, seconds: number, amount: bigint | undefined): string | undefined {
  if (amount === undefined) return 'an offer without an amount'
  if (amount === 0n) return 'a payment of nothing'
  if (payTo === NOBODY) return 'a payment to nobody'
  if (seconds > PAYMENT_WINDOW_SECONDS_MAX)
    return `a payment valid for ${seconds} s; the limit is ${PAYMENT_WINDOW_SECONDS_MAX} s`
  return undefined
}

function noOffer(refusals: readonly Refusal[], asset: Asset): MarketError {
  const asked = [...new Set(refusals.map(({ why }) => why))].slice(0, 3).join('; or ')
  if (refusals.every(({ isForeign }) => isForeign === true)) {
    const ours = `this node pays on ${networkText(asset.network)}`
    return new MarketError('NETWORK_MISMATCH', `the seller asks for ${asked}, and ${ours}: nothing was signed`)
  }
  return new MarketError('TERMS_REFUSED', `the seller asks for ${asked}: nothing was signed`)
}

/** The seller says what is paid for. Another host there means that somebody else's terms were passed on. */
function checkResource(named: string, url: string): void {
  const [at, asked] = [URL.parse(named, url), new URL(url)]
  if (at !== null && at.hostname === asked.hostname && (at.port === asked.port || at.protocol !== asked.protocol))
    return
  throw new MarketError(
    'TERMS_REFUSED',
    `the payment would be for ${shown(named)}, on another host than ${asked.host}: nothing was signed`,
  )
}

/** @throws MarketError TERMS_REFUSED if a seller asks for more, or for something else, than the caller expects */
export function checkExpected({ amount, network, asset, payTo }: PaymentRequirements, expected: Expected): void {
  const differs = (what: string, asked: string, wanted: string) =>
    new MarketError('TERMS_REFUSED', `the seller asks ${what} ${asked}, and ${wanted} was expected: nothing was signed`)
  if (expected.amount !== undefined && amount > expected.amount)
    throw differs('for', usdc(amount), `at most ${usdc(expected.amount)}`)
  if (expected.payTo !== undefined && !sameAddress(payTo, expected.payTo))
    throw differs('to pay', payTo, shown(expected.payTo))
  if (expected.network !== undefined && networkOfV1(expected.network) !== network) {
    throw differs('for payment on', network, shown(expected.network))
  }
  if (expected.asset !== undefined && !sameAddress(asset, expected.asset))
    throw differs('for the asset', asset, shown(expected.asset))
}

/** Text of a seller in an error. */
export function shown(text: string): string {
  return JSON.stringify(text.slice(0, 80))
}
