import * as z from 'zod'
import { Price, PriceText } from './amount.ts'
import { AtomicAmount, type Hex } from './primitives.ts'
import type { SignedX402Receipt } from './receipt.ts'

/** Characters of the address of a seller, as bazaar catalogs take it. */
export const URL_LENGTH_MAX = 2048
/** Bytes of the body of a request to a seller, and headers of one request. */
export const WEB_BODY_BYTES_MAX = 2 * 1024 * 1024
const HEADERS_MAX = 32
const HEADER_LENGTH_MAX = 4096

export const webMethods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
export type WebMethod = (typeof webMethods)[number]

const HeaderName = z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$/, 'is not the name of a header')
const HeaderValue = z
  .string()
  .max(HEADER_LENGTH_MAX)
  .regex(/^[\x20-\x7e\x80-\xff]*$/, 'has a character that no header may have')

/** What the caller expects of a seller. Nothing is signed if the seller asks for more, or for something else. */
const ExpectedTerms = z
  .strictObject({
    price: z.union([Price, PriceText]).optional().meta({ description: 'the most that it should ask, in USDC' }),
    pay_to: z.string().max(64).optional().meta({ description: 'the account that should be paid' }),
    asset: z.string().max(64).optional().meta({ description: 'the contract of the asset' }),
    network: z.string().max(64).optional().meta({ description: 'CAIP-2 id' }),
  })
  .meta({ id: 'ExpectedTerms', description: 'What the seller should ask. Nothing is signed for other terms.' })

/** Fields of a request that buys from a URL. */
export const webFields = {
  url: z.string().min(1).max(URL_LENGTH_MAX).optional().meta({
    description: 'address of an x402 seller over HTTP, instead of `agent_id`: `https://…`',
  }),
  method: z
    .enum(webMethods)
    .optional()
    .meta({ description: 'with `url`: the method; default: what the seller declares, or POST' }),
  headers: z
    .record(HeaderName, HeaderValue)
    .refine((headers) => Object.keys(headers).length <= HEADERS_MAX, `has more than ${HEADERS_MAX} headers`)
    .optional()
    .meta({
      description: 'with `url`: headers of the request. They stay in the ledger, also after the order has ended',
    }),
  body: z.string().optional().meta({
    description: 'with `url`: the body of the request as it is, instead of `{"task": …}`',
  }),
  expected: ExpectedTerms.optional().meta({
    description:
      'with `url`: what the seller should ask, by `price`, `pay_to`, `asset` and `network`. Nothing is signed for other terms',
  }),
}

/** Refuses fields that were given and mean nothing beside the others. */
export function refuseGiven(fields: Record<string, unknown>, message: string, context: z.core.$RefinementCtx): void {
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) context.addIssue({ code: 'custom', path: [name], message })
  }
}

/** The same, as code passes it on. */
export type Expected = {
  /** The most that the seller should ask, in atomic units. */
  amount?: bigint | undefined
  payTo?: string | undefined
  asset?: string | undefined
  network?: string | undefined
}

/** A request to an x402 seller over HTTP, as a caller gives it. */
export type WebWish = {
  url: string
  /** The task. It is sent as the seller declares it, or else as `{"task": …}`. */
  task?: string | undefined
  /** Default: what the seller declares, or POST. */
  method?: WebMethod | undefined
  headers?: Readonly<Record<string, string>> | undefined
  /** The body as it is sent, instead of the task. */
  body?: string | undefined
  /** What the seller should ask, such as what a catalog says. Nothing is signed for more, or for other terms. */
  expected?: Expected | undefined
}

export function expectedOf({ price, pay_to, asset, network }: z.output<typeof ExpectedTerms>): Expected {
  return { amount: price, payTo: pay_to, asset, network }
}

/** A request as it is sent: the same each time, unpaid and paid. */
export type WebRequest = { method: WebMethod; url: string; headers: Readonly<Record<string, string>>; body?: string }

/** What a seller asked, as it wrote it. It goes back to the seller with the payment. */
export type SentTerms = {
  version: 1 | 2
  accepted: Readonly<Record<string, unknown>>
  resource?: unknown
  extensions?: unknown
}

/** What an order at an x402 seller over HTTP keeps beside the fields of all orders. */
export type WebOrder = {
  request: WebRequest
  /** True until the seller is asked: the task takes the shape that it declares. */
  isUnshaped?: boolean
  expected?: Omit<Expected, 'amount'> & { amount?: string }
  /** What the payment was signed for. Undefined: nothing was signed. */
  terms?: SentTerms
  /** The content type of the result. */
  contentType?: string
  /** A receipt of x402's offer-receipt extension that was valid. */
  receipt?: SignedX402Receipt
}

/** How the API shows that an order was bought over HTTP. */
export const WebPurchase = z
  .object({
    url: z.string().meta({ description: 'where the request went' }),
    method: z.string(),
    x402_version: z.int().optional().meta({ description: 'absent: nothing was signed' }),
    content_type: z.string().optional().meta({ description: 'of the result, as the seller names it' }),
    receipt: z
      .unknown()
      .optional()
      .meta({ description: "a receipt of x402's offer-receipt extension, if one came and is valid" }),
  })
  .meta({ id: 'WebPurchase', description: 'What was bought from an x402 seller over HTTP.' })
export type WebPurchase = z.infer<typeof WebPurchase>

const Accepts = z.array(z.unknown()).min(1)
/** The parts of a payment request that this node reads. The rest goes back as it came. */
export const PaymentRequired = z.discriminatedUnion('x402Version', [
  z.object({
    x402Version: z.literal(2),
    error: z.string().optional().catch(undefined),
    resource: z.object({ url: z.string().max(URL_LENGTH_MAX) }).nullish(),
    accepts: Accepts,
    extensions: z.record(z.string(), z.unknown()).nullish(),
  }),
  z.object({ x402Version: z.literal(1), error: z.string().optional().catch(undefined), accepts: Accepts }),
])
export type PaymentRequired = z.infer<typeof PaymentRequired>

const extra = z
  .object({
    name: z.string().optional(),
    version: z.string().optional(),
    paymentFlow: z.string().optional(),
    assetTransferMethod: z.string().optional(),
  })
  .nullish()
/** One of the offers of a payment request. v1 has another name for the amount, and says for what it is. */
export const WebOffer = z.object({
  scheme: z.string().max(64),
  network: z.string().max(64),
  amount: AtomicAmount.optional(),
  maxAmountRequired: AtomicAmount.optional(),
  resource: z.string().max(URL_LENGTH_MAX).optional(),
  asset: z.string().max(64),
  payTo: z
    .string()
    .regex(/^0x[0-9a-fA-F]{40}$/, 'is not an account')
    .transform((text) => text as Hex),
  maxTimeoutSeconds: z.int().min(1),
  extra,
})
export type WebOffer = z.output<typeof WebOffer>

/** How a seller tells what became of a payment. */
export const WebSettlement = z.object({
  success: z.boolean(),
  transaction: z.string().optional().catch(undefined),
  errorReason: z.string().optional().catch(undefined),
  extensions: z.record(z.string(), z.unknown()).optional().catch(undefined),
})
export type WebSettlement = z.infer<typeof WebSettlement>
