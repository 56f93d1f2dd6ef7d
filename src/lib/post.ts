import { lookup as lookupName } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import type { Dispatcher } from 'undici'
import { CodedError } from './errors.ts'
import { isPublicAddress } from './public-address.ts'

type PostRequest = { headers: Record<string, string>; body: string; signal: AbortSignal }
/** Sends a text and returns the status. Redirects are not followed. @throws the connection's error */
export type Post = (url: string, request: PostRequest) => Promise<number>

/** Bytes read of an answer before the connection is dropped. */
const ANSWER_BYTES_MAX = 64 * 1024

/**
 * Posts to URLs that others chose. With `publicOnly` nobody reaches this node's own network through it (T12): the
 * connection itself resolves the name, once, so the address cannot change between check and use. Apart from `http.ts`,
 * which every command loads: node:net takes 4 ms to load.
 */
export function createPost(options: { publicOnly: boolean }): Post {
  let loaded: Promise<(url: string, request: PostRequest) => Promise<number>> | undefined
  return async (url, request) => {
    const host = new URL(url).hostname.replace(/^\[(.*)\]$/, '$1')
    if (options.publicOnly && isIP(host) !== 0 && !isPublicAddress(host)) throw notPublic(host)
    loaded ??= load(options)
    return (await loaded)(url, request)
  }
}

async function load({ publicOnly }: { publicOnly: boolean }) {
  const { Agent, request } = await import('undici')
  const timeouts = { headersTimeout: 30_000, bodyTimeout: 30_000 }
  const dispatcher: Dispatcher = new Agent({
    ...timeouts,
    keepAliveTimeout: 1_000,
    connect: { timeout: 10_000, ...(publicOnly && { lookup: lookupPublic }) },
  })
  return async (url: string, { headers, body, signal }: PostRequest) => {
    const answer = await request(url, { method: 'POST', headers, body, signal, dispatcher })
    await answer.body.dump({ limit: ANSWER_BYTES_MAX, signal })
    return answer.statusCode
  }
}

const lookupPublic: LookupFunction = (hostname, options, callback) => {
  lookupName(hostname, { ...options, all: true }, (error, addresses) => {
    if (error !== null) return callback(error, '', 0)
    const [first] = addresses
    // A name with one private address is refused entirely.
    if (first === undefined || !addresses.every(({ address }) => isPublicAddress(address))) {
      return callback(notPublic(hostname), '', 0)
    }
    if (options.all === true) (callback as unknown as (error: null, list: typeof addresses) => void)(null, addresses)
    else callback(null, first.address, first.family)
  })
}

function notPublic(host: string): CodedError {
  return new CodedError(
    'ADDRESS_NOT_PUBLIC',
    `${host} is no address of the open internet: name it in config.yaml instead`,
  )
}
