import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Caller } from '../schema/caller.ts'

/** A request under `/a2a` that the API has let in. Its body is unread. */
export type A2aCall = {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** What follows `/a2a`: `/{id}/rest/message:send`, query included. */
  readonly rest: string
  /** Where the caller found `/a2a`: `http://127.0.0.1:8424/a2a`. */
  readonly url: string
  /** Whose request it is. */
  readonly caller: Caller
}
