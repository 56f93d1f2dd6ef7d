import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Caller, Scope } from '../../schema/caller.ts'
import type { Access } from './security.ts'

/** A request to a mount that has passed the doors. Its body has not been read. */
export type MountCall = {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** What follows the mount's path, query included: `/abc/rest/tasks?pageSize=1`, or `` for the path itself. */
  readonly rest: string
  /** Where the caller found the mount: `http://127.0.0.1:8424/a2a`. */
  readonly url: string
  /** Whose request it is. */
  readonly caller: Caller
  /** Aborts when the client has gone before its answer was complete, or when the node stops. */
  readonly signal: AbortSignal
}

/**
 * A path under which another protocol answers by itself: it reads bodies, writes headers and streams as it likes.
 *
 * Its requests pass the same doors as every operation. A mount must itself bound the bodies it reads and refuse those
 * that are not JSON: a form needs no preflight (T11).
 */
export type Mount = {
  /** Such as `/mcp`; it answers that path and all below it, with and without `/api`. */
  path: string
  methods: readonly string[]
  /** Of these, those that a path below answers: what OPTIONS offers. All of them where it is not said. */
  offered?(rest: string): readonly string[]
  /** Headers a page may send beside the usual ones. */
  requestHeaders: readonly string[]
  /** `rest` is the path below the mount, without its query. */
  access(method: string, rest: string): Access
  /** What a token must allow at least. */
  scope(method: string, rest: string): Scope
  /** Answers, or throws: a CodedError becomes its problem, whatever else the node's own fault. */
  handle(call: MountCall): Promise<void>
}

/** The mount a path belongs to, with what follows it. `target` is as the request line has it: nothing is decoded. */
export function mountAt(mounts: readonly Mount[], target: string): { mount: Mount; rest: string } | undefined {
  const path = target.replace(/^\/api(?=\/)/, '')
  const mount = mounts.find((one) => path.startsWith(one.path) && /^(?:[/?]|$)/.test(path.slice(one.path.length)))
  return mount && { mount, rest: path.slice(mount.path.length) }
}
