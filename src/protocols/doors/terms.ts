import { largest } from '../../lib/bigints.ts'
import { BoundedMap } from '../../lib/bounded-map.ts'
import type { Clock } from '../../lib/clock.ts'
import { cutJson } from '../../lib/text/cut-json.ts'
import { type Asset, assetOf } from '../../payments/assets.ts'
import type { ReceiptSigner } from '../../payments/receipt-signer.ts'
import { requirementsOf } from '../../payments/requirements.ts'
import { CHANNEL_SCHEME } from '../../schema/channel.ts'
import { PaymentRequirements } from '../../schema/payment.ts'
import type { Hex } from '../../schema/primitives.ts'
import { v1NetworkName } from '../../schema/x402-http.ts'
import type { ServedAgent } from '../x402/exchange.ts'
import { type Accepted, mismatch, otherResource, type Stated } from './accepted.ts'
import { bazaarExtension, bazaarTool, v1OutputSchema } from './bazaar.ts'
import { encodeHeader } from './payment-header.ts'

/** What an agent says of itself to people and catalogs. */
export type AgentText = { name: string; description: string; tags: readonly string[] }

/** A place where an agent is sold: its own address, and whether the payment settles before the run. */
export type Resource = {
  url: string
  /** The kind of answer. */
  mimeType: 'application/json' | 'text/event-stream' | 'text/plain'
  isUpfront: boolean
  /** True if catalogs may list it. */
  isListed: boolean
  /** True if a payment channel may pay there. */
  isOnChannels?: boolean
  /** The tool of MCP that it is, if it shares its address with others. */
  tool?: string
}

/** What this seller asks at one address. One answer serves both versions of x402: v2 reads the header, v1 the body. */
export type Terms = {
  requirements: PaymentRequirements
  /** `PaymentRequired` of v2. `channel`: what is said of a payment channel whose voucher is not right. */
  v2(error: string, channel?: object): object
  /** True if it can be paid on a new payment channel. */
  takesChannels: boolean
  /** Why these are not the terms that a buyer accepts. Undefined: they are. */
  mismatch(accepted: Accepted): string | undefined
  /** The body of v1. */
  v1(error: string): object
  /** The header of v2 without a special error. */
  header: string
}

/** Bytes of a description in a payment request, as JSON. Proxies take headers of 4 KiB, and catalogs 500 characters. */
const DESCRIPTION_BYTES_MAX = 400
/** Bytes of an error. */
const ERROR_BYTES_MAX = 300
const SERVICE_NAME = /^[\x20-\x7e]{1,32}$/
const TAGS_MAX = 5
/** How long an offer holds, and when it is signed anew. */
const OFFER_SECONDS = 600
const OFFER_FRESH_MS = 60_000
/** Addresses whose terms are kept. Beyond it the oldest are made anew. */
const KEPT_MAX = 256

export const PAYMENT_REQUIRED = 'Payment required'

/** What this seller wants of payment channels: see `ChannelTerms`. `isOpen`: it takes new ones. Those that exist go on. */
export type ChannelOffer = { receiverAuthorizer: Hex; withdrawDelay: number; minDeposit: bigint; isOpen: boolean }

type TermsDeps = {
  clock: Clock
  asset: Asset
  payTo: Hex
  signer: Pick<ReceiptSigner, 'signOffer'>
  /** Undefined: it takes none. */
  channel?(): ChannelOffer | undefined
}
type Priced = Pick<ServedAgent, 'amount' | 'timeoutMs' | 'pricing'>
type Kept = { key: string; at: number; terms: Terms }

/** Makes what is asked of buyers who have not paid, without a look at the ledger, and keeps it for a minute. */
export class DoorTerms {
  readonly #deps: TermsDeps
  readonly #kept = new BoundedMap<string, Kept>(KEPT_MAX)

  constructor(deps: TermsDeps) {
    this.#deps = deps
  }

  of(agent: Priced, text: AgentText, resource: Resource): Terms {
    const now = this.#deps.clock.now()
    const max = agent.pricing?.max.toString()
    const isOpen = this.#deps.channel?.()?.isOpen
    const key = JSON.stringify([agent.amount.toString(), max, agent.timeoutMs, resource, text, isOpen])
    const place = `${resource.url} ${resource.tool ?? ''}`
    const kept = this.#kept.get(place)
    if (kept !== undefined && kept.key === key && now >= kept.at && now < kept.at + OFFER_FRESH_MS) return kept.terms
    const terms = this.#made(agent, text, resource)
    this.#kept.set(place, { key, at: now, terms })
    return terms
  }

  /** Why a payment is for another resource, or for other terms than are asked. `sold` undefined: nothing is asked there. */
  mismatch(
    stated: Stated,
    resource: Resource,
    sold: { agent: Priced; text: AgentText } | undefined,
  ): string | undefined {
    const { accepted } = stated
    const other = otherResource(stated, resource.url)
    if (other !== undefined || sold === undefined || accepted === undefined) return other
    return this.of(sold.agent, sold.text, resource).mismatch(accepted)
  }

  #made(agent: Priced, text: AgentText, resource: Resource): Terms {
    const { asset, payTo, clock, signer } = this.#deps
    const requirements = requirementsOf(agent, asset, payTo)
    const encoded = PaymentRequirements.encode(requirements)
    const { name, version } = assetOf(requirements.network)!
    const extra = { name, version, ...(resource.isUpfront && { paymentFlow: 'upfront' }) }
    const accepted = { ...encoded, extra }
    const onChannel = resource.isOnChannels === true ? this.#onChannel(agent, accepted) : undefined
    const { scheme, network, amount } = encoded
    const validUntil = Math.floor(clock.now() / 1000) + OFFER_SECONDS
    const offer = signer.signOffer({
      ...{ version: 1, resourceUrl: resource.url, scheme, network, asset: encoded.asset, payTo: encoded.payTo },
      ...{ amount, validUntil },
    })
    const description = cutJson(text.description, DESCRIPTION_BYTES_MAX)
    const { mimeType, url } = resource
    const extensions = {
      ...(resource.isListed && { bazaar: resource.tool === undefined ? bazaarExtension : bazaarTool(resource.tool) }),
      'offer-receipt': { info: { offers: [{ ...offer, acceptIndex: 0 }] }, schema: offersSchema },
    }
    const shared = { resource: { url, description, mimeType, ...catalogText(text) } }
    const differing = (meant: Accepted) => mismatch(onChannel === undefined ? [accepted] : [accepted, onChannel], meant)
    const takesChannels = onChannel !== undefined && this.#deps.channel?.()?.isOpen === true
    const v2 = (error: string, channel?: object) => {
      // Who has a channel is told how it goes on.
      const isShown = takesChannels || channel !== undefined
      const more = isShown && onChannel && { ...onChannel, extra: { ...onChannel.extra, ...channel } }
      const accepts = [accepted, ...(more ? [more] : [])]
      const said = { x402Version: 2, error: cutJson(error, ERROR_BYTES_MAX), ...shared, accepts }
      // The state of a channel takes the room of the declarations.
      return channel === undefined ? { ...said, extensions } : said
    }
    const { maxTimeoutSeconds } = requirements
    const old = {
      ...{ scheme, network: v1NetworkName(network), maxAmountRequired: amount, resource: url, description, mimeType },
      ...{ payTo, maxTimeoutSeconds, asset: encoded.asset, outputSchema: v1OutputSchema, extra },
    }
    const v1 = (error: string) => ({ x402Version: 1, error: cutJson(error, ERROR_BYTES_MAX), accepts: [old] })
    return { requirements, v2, v1, mismatch: differing, takesChannels, header: encodeHeader(v2(PAYMENT_REQUIRED)) }
  }

  /** The same by a payment channel, by which a metered agent costs what it has used. */
  #onChannel<T extends object>({ pricing, amount }: Priced, accepted: T) {
    const { asset } = this.#deps
    const channel = this.#deps.channel?.()
    if (channel === undefined) return undefined
    const price = pricing?.max ?? amount
    const { name, version } = assetOf(asset.network)!
    const { receiverAuthorizer, withdrawDelay, minDeposit } = channel
    const extra = {
      name,
      version,
      receiverAuthorizer,
      withdrawDelay,
      minDeposit: largest(minDeposit, price).toString(),
    }
    return { ...accepted, scheme: CHANNEL_SCHEME, amount: price.toString(), extra }
  }
}

const offersSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  properties: { offers: { type: 'array' } },
  required: ['offers'],
}

/** Name and tags as catalogs take them. They drop what is longer or not printable. */
function catalogText({ name, tags }: AgentText): { serviceName?: string; tags?: string[] } {
  const fitting = tags.filter((tag) => SERVICE_NAME.test(tag)).slice(0, TAGS_MAX)
  return { ...(SERVICE_NAME.test(name) && { serviceName: name }), ...(fitting.length > 0 && { tags: fitting }) }
}
