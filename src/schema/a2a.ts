/** The URI of the x402 extension for payments over A2A. Its x402 objects are version 2. */
export const X402_EXTENSION = 'https://github.com/google-agentic-commerce/a2a-x402/blob/main/spec/v0.2'

/** Stoa's extension: what a reader needs to reach the same agent over libp2p. */
export const STOA_EXTENSION = 'urn:stoa:a2a:agent:v1'

/** Key in a message's metadata: the number of agents that bought from or asked one another before this message. */
export const HOPS_KEY = 'stoa.hops'

/**
 * Header in which a stranger at the public listener sends a secret of its own choice, with each request about a task. Only
 * requests with the same secret then find the task.
 */
export const CALLER_HEADER = 'Stoa-Caller'

/** Keys of the x402 extension in a message's metadata. */
export const paymentKeys = {
  status: 'x402.payment.status',
  required: 'x402.payment.required',
  payload: 'x402.payment.payload',
  receipts: 'x402.payment.receipts',
  error: 'x402.payment.error',
  /** Not part of the extension: the receipt that the seller signs for the result. */
  signedReceipt: 'stoa.receipt',
} as const
