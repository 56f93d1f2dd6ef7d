/** Payments over A2A: the extension's URI stands for its messages; the x402 objects in them are of version 2. */
export const X402_EXTENSION = 'https://github.com/google-agentic-commerce/a2a-x402/blob/main/spec/v0.2'

/** Ours: what a reader needs to reach the same agent over libp2p instead. */
export const STOA_EXTENSION = 'urn:stoa:a2a:agent:v1'

/** In a message's metadata: how many agents have bought or asked for one another before it. */
export const HOPS_KEY = 'stoa.hops'

/** What the x402 extension keeps in a message's metadata. */
export const paymentKeys = {
  status: 'x402.payment.status',
  required: 'x402.payment.required',
  payload: 'x402.payment.payload',
  receipts: 'x402.payment.receipts',
  error: 'x402.payment.error',
  /** Not of the extension: the receipt that the seller signs for the result. */
  signedReceipt: 'stoa.receipt',
} as const
