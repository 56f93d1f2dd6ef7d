import { HTTP_EXTENSION_HEADER } from '@a2a-js/sdk'
import { LEGACY_HTTP_EXTENSION_HEADER } from '@a2a-js/sdk/compat/v0_3'
import { ServerCallContext } from '@a2a-js/sdk/server'
import type { A2aCall } from './call.ts'
import { CHECK_KEY, URL_KEY } from './executor.ts'
import { CALLER_KEY } from './tasks.ts'

/** Extensions read from the headers of one request. */
const EXTENSIONS_MAX = 32

/** True for an id that only who made it can know: a UUID. */
export function isUnguessable(id: string): boolean {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id)
}

/** Builds the SDK's context of a call. Both versions accept both names of the extension header. */
export function callContext(
  { request: { headers }, url, rest, caller, check }: A2aCall,
  requestedVersion: string,
): ServerCallContext {
  const named = [HTTP_EXTENSION_HEADER, LEGACY_HTTP_EXTENSION_HEADER].map((name) => headers[name.toLowerCase()])
  const requestedExtensions = named
    .flat()
    .flatMap((line) => (line ?? '').split(','))
    .map((uri) => uri.trim())
    .filter((uri) => uri !== '')
    .slice(0, EXTENSIONS_MAX)
  const agentPath = /^\/[^/?]*/.exec(rest)?.[0] ?? ''
  const state = new Map<string, unknown>([
    [URL_KEY, url + agentPath],
    [CALLER_KEY, caller],
    [CHECK_KEY, check],
  ])
  return new ServerCallContext({ requestedExtensions, requestedVersion, state })
}
