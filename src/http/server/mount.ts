import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Problem } from '../../schema/api.ts'
import type { Caller, Scope } from '../../schema/caller.ts'
import type { Access } from './security.ts'

/** An admitted request to a mount. Its body is unread. */
type MountCall = {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** The part after the mount's path, including the query: `/abc/rest/tasks?pageSize=1`, or `` for the path itself. */
  readonly rest: string
  /** The address of the mount as the caller used it: `http://127.0.0.1:8424/a2a`. */
  readonly url: string
  readonly caller: Caller
  /** Aborts when the client has left before its answer was complete, or when the node stops. */
  readonly signal: AbortSignal
}

/**
 * A path whose requests another protocol answers. It reads bodies, writes headers and streams on its own. Its requests
 * pass the same checks as every operation. A mount must limit the bodies it reads and refuse bodies that are not JSON,
 * because a form needs no preflight (T11).
 */
export type Mount = {
  /** For example `/mcp`. The mount answers this path and all paths below it, with and without `/api`. */
  path: string
  methods: readonly string[]
  /** The methods that a path below answers, for OPTIONS. Default: all methods. */
  offered?(rest: string): readonly string[]
  /** Headers that a page may send in addition to the usual ones. */
  requestHeaders: readonly string[]
  /** `rest` is the path below the mount, without its query. */
  access(method: string, rest: string): Access
  /** The lowest scope that a token needs. */
  scope(method: string, rest: string): Scope
  /**
   * True: if this node needs no token, a request with a key that is no token of this node counts as one without a token.
   * For clients that always send a key.
   */
  ignoresKeys?: boolean
  /** A refusal in the form of the mount's protocol. Default: a problem (RFC 9457). */
  errorBody?(problem: Problem): { status: number; headers: Readonly<Record<string, string>>; body: object }
  /** Answers or throws. A CodedError becomes its problem; any other error is a fault of the node. */
  handle(call: MountCall): Promise<void>
}

/** Returns a target without the prefix `/api`. */
export function withoutPrefix(target: string): string {
  return target.replace(/^\/api(?=\/)/, '')
}

/** The part of a target (without prefix) after the mount's path. Undefined: the path is percent-encoded. */
export function restOf({ path }: Mount, target: string): string | undefined {
  const rest = target.slice(path.length)
  return target.startsWith(path) && /^(?:[/?]|$)/.test(rest) ? rest : undefined
}
