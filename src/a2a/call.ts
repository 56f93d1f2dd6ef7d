import type { IncomingMessage, ServerResponse } from 'node:http'
import type { PaymentCheck } from '../protocols/doors/payment-check.ts'
import type { Caller } from '../schema/caller.ts'

/** A request under `/a2a` that the API has admitted. Its body is unread. */
export type A2aCall = {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** The part after `/a2a`, including the query: `/{id}/rest/message:send`. */
  readonly rest: string
  /** The address of `/a2a` as the caller used it: `http://127.0.0.1:8424/a2a`. */
  readonly url: string
  readonly caller: Caller
  /** Undefined: a payment is checked at once. */
  readonly check?: PaymentCheck
}
