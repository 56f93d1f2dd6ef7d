import type * as z from 'zod'
import { type Asset, assetOf, sameAddress } from '../payments/assets.ts'
import { formatPrice, PRICE_ATOMIC_MAX } from '../schema/amount.ts'
import { networkText } from '../schema/network-kind.ts'
import { Address } from '../schema/primitives.ts'
import type { SourceEntry, SourceTerms } from '../schema/source.ts'
import { networkOfV1 } from '../schema/x402-http.ts'
import { cleanText, fieldOf } from './foreign.ts'

/** What one entry of `accepts` says, as far as it can be read. */
type Terms = { scheme: string; network: string; asset: string; payTo: string; amount: bigint }

/** Whether this node can pay one of the ways in `accepts`. */
export type Choice =
  | { kind: 'payable'; terms: Terms }
  /** `terms`: the first way that can be read. */
  | { kind: 'other'; terms: Terms | undefined; reason: string }

/** Ways of payment read from one resource. */
const ACCEPTS_MAX = 16
/** Digits of uint256 would be 78. No price has more than these. */
const amountForm = /^(?:0|[1-9][0-9]{0,29})$/

/** Chooses how this node would pay. @param accepts of a catalog or of a 402 answer, which anybody may have written */
export function choosePayable(accepts: unknown, own: Asset): Choice {
  const ways = Array.isArray(accepts) ? accepts.slice(0, ACCEPTS_MAX).flatMap((way) => readTerms(way) ?? []) : []
  const terms = ways.find((way) => refusalOf(way, own) === undefined)
  if (terms !== undefined) return { kind: 'payable', terms }
  const [first] = ways
  return {
    kind: 'other',
    terms: first,
    reason: first === undefined ? 'it has no price that can be read' : refusalOf(first, own)!,
  }
}

/** The terms as the API shows them. An amount of another asset than USDC has no price. */
export function shownTerms({ network, asset, payTo, amount }: Terms): NonNullable<SourceEntry['listed']> {
  const price = isUsdc(network, asset) ? formatPrice(amount) : undefined
  return { ...(price !== undefined && { price }), price_atomic: amount.toString(), asset, network, pay_to: payTo }
}

export function payableTerms({ network, asset, payTo, amount }: Terms): SourceTerms {
  return { price: formatPrice(amount), asset, network, pay_to: payTo }
}

/** The price in USDC, if it is one. */
export function usdcPrice(terms: Terms | undefined): bigint | undefined {
  return terms !== undefined && isUsdc(terms.network, terms.asset) ? terms.amount : undefined
}

/** Why a purchase at the live terms is not what the catalog says. */
export function differenceOf(listed: Choice, live: Terms): string | undefined {
  if (listed.kind === 'other') return listed.terms && 'it asks for another network or asset than the catalog says'
  const { amount, payTo } = listed.terms
  if (!sameAddress(payTo, live.payTo)) return 'it is paid to another account than the catalog says'
  if (live.amount <= amount) return undefined
  return `it asks for ${formatPrice(live.amount)} USDC, and the catalog says ${formatPrice(amount)}`
}

function readTerms(way: unknown): Terms | undefined {
  const [scheme, network, asset, payTo] = ['scheme', 'network', 'asset', 'payTo'].map((name) =>
    textOf(fieldOf(way, name)),
  )
  // x402 v1 has another name for the amount. Numbers are refused: floats and 1e99 are no amounts.
  const amount = fieldOf(way, 'amount') ?? fieldOf(way, 'maxAmountRequired')
  if (!scheme || !network || !asset || !payTo) return undefined
  if (typeof amount !== 'string' || !amountForm.test(amount)) return undefined
  return { scheme, network: networkOfV1(network), asset, payTo, amount: BigInt(amount) }
}

function refusalOf({ scheme, network, asset, payTo, amount }: Terms, own: Asset): string | undefined {
  if (network !== own.network)
    return `it is paid on ${networkName(network)}, and this node pays on ${networkText(own.network)}`
  if (!sameAddress(asset, own.address)) return `it asks for another asset than USDC: ${asset}`
  if (scheme !== 'exact') return `it asks for the scheme ${scheme}, and this node pays catalogs' resources with exact`
  if (!isAddress(payTo)) return 'it names no account that can be paid'
  if (amount === 0n) return 'its price is 0'
  return amount > PRICE_ATOMIC_MAX ? 'its price is above 1000000 USDC' : undefined
}

function networkName(network: string): string {
  return assetOf(network) === undefined ? network : networkText(network)
}

function isUsdc(network: string, asset: string): boolean {
  const known = assetOf(network)
  return known !== undefined && sameAddress(known.address, asset)
}

function isAddress(text: string): text is z.output<typeof Address> {
  return Address.safeParse(text).success
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? cleanText(value, 128) : undefined
}
