import { isIP } from 'node:net'
import type { Stream } from '@libp2p/interface'
import { bareHost } from '../../lib/bare-host.ts'
import { checkedLookup } from '../../lib/checked-lookup.ts'
import type { Clock } from '../../lib/clock.ts'
import { type Glance, type GlanceOptions, glance } from '../../lib/glance.ts'
import type { Service } from '../../lib/lifecycle.ts'
import type { Logger } from '../../lib/logger.ts'
import { isPublicAddress } from '../../lib/public-address.ts'
import { TokenBuckets } from '../../lib/token-buckets.ts'
import { siteOf } from '../../p2p/networks.ts'
import type { ListedTerms } from '../../payments/requirements.ts'
import { DOOR_LOOK_PROTOCOL, DoorLook, DoorSeen, type LookCode } from '../../schema/door-look.ts'
import { AgentId } from '../../schema/primitives.ts'
import { FramedStream } from '../framed-stream.ts'
import { jsonOf } from '../x402/messages.ts'
import { seenTerms } from './seen-terms.ts'

type DoorLooksDeps = {
  clock: Clock
  logger: Logger
  /** What the signed listing of an agent asks. Undefined: this peer sells no such agent. */
  listedTerms(agentId: string, sellerId: string): ListedTerms | undefined
  /** The site that a peer is connected from, directly. */
  siteOf(peerId: string): string | undefined
  handle(
    protocol: string,
    handler: (stream: Stream, peerId: string) => void,
    options: { relayed: boolean },
  ): Promise<void>
  /** Asks the address. Default: over the network. @internal */
  look?: (url: URL, options: GlanceOptions) => Promise<Glance>
}

/** How long a peer may take to ask, and an address to answer. */
const ASK_MS_MAX = 5_000
const LOOK_MS_MAX = 2_500
/** Looks at once. Each holds a socket, and at most one small frame. */
const LOOKS_MAX = 4
const FRAME_BYTES_MAX = 2_048
/** One address is tested a few times while its operator mends it. */
const PEER_LOOKS = { burst: 4, perSecond: 1 / 60, keysMax: 1_000 }
const SITE_LOOKS = { burst: 8, perSecond: 1 / 30, keysMax: 1_000 }
/** Looks at one host name, for all peers together: they must not aim this node at somebody. */
const HOST_LOOKS = { burst: 4, perSecond: 1 / 30, keysMax: 1_000 }
/** Looks for all peers at all names: names cost nothing, so only this bounds the requests to one machine. */
const ALL_LOOKS = { burst: 20, perSecond: 1 / 5, keysMax: 1 }
/** Ports below it, other than 443, belong to services that are not for sale. */
const PORT_MIN = 1_024

/**
 * Asks the public addresses of other sellers for them (`/stoa/door-look/1.0.0`), so that they learn whether strangers
 * reach them. The peer chooses nothing but the name of its own host: scheme, path, method and body are fixed, the agent
 * must be in a listing that the peer has signed, and the answer is one of seven words (T40).
 */
export function createDoorLooks(deps: DoorLooksDeps): Service {
  const { clock, logger, look = glance } = deps
  const [byPeer, bySite, byHost, all] = [PEER_LOOKS, SITE_LOOKS, HOST_LOOKS, ALL_LOOKS].map(
    (options) => new TokenBuckets(options),
  ) as [TokenBuckets, TokenBuckets, TokenBuckets, TokenBuckets]
  const closing = new AbortController()
  const served = new Set<Promise<void>>()

  function accept(stream: Stream, peerId: string): void {
    if (served.size >= LOOKS_MAX || closing.signal.aborted) return void stream.abort(new Error('too many looks'))
    let held = 0
    const account = (change: number) => {
      held += change
      return held <= FRAME_BYTES_MAX
    }
    const framed = new FramedStream(stream, { account })
    const work = serve(framed, peerId)
      .catch((error: unknown) => logger.debug({ err: error, peer_id: peerId }, 'a peer’s look was not answered'))
      .finally(() => {
        stream.abort(new Error('the look is over'))
        served.delete(work)
      })
    served.add(work)
  }

  async function serve(stream: FramedStream, peerId: string): Promise<void> {
    const signal = AbortSignal.any([closing.signal, AbortSignal.timeout(ASK_MS_MAX)])
    const frame = await stream.read(signal)
    const asked = frame?.type === 'look' ? DoorLook.safeParse(jsonOf(frame.data)).data : undefined
    const code = asked === undefined ? 'refused' : await codeFor(asked, peerId, signal)
    await stream.writeText('seen', JSON.stringify({ code } satisfies DoorSeen), signal)
    await stream.close(signal)
  }

  async function codeFor(asked: DoorLook, peerId: string, signal: AbortSignal): Promise<LookCode> {
    const { agent_id: agentId } = asked
    const site = deps.siteOf(peerId)
    const url = addressOf(asked)
    const listed = deps.listedTerms(agentId, peerId)
    if (url === undefined || site === undefined || listed === undefined || listed.amount === 0n) return 'refused'
    const host = bareHost(url.hostname)
    const isHttps = url.port === ''
    // Another port is asked only where the peer itself is.
    const mayReach = (address: string) => isPublicAddress(address) && (isHttps || siteOf(address) === site)
    if (isIP(host) !== 0 && !mayReach(host)) return 'refused'
    const now = clock.now()
    const isLimited =
      !byPeer.take(peerId, 1, now) || !bySite.take(site, 1, now) || !byHost.take(host, 1, now) || !all.take('', 1, now)
    if (isLimited) return 'busy'
    const seen = await look(url, {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' }, bodyBytesMax: 0 },
      lookup: lookupAmong(mayReach),
      signal: AbortSignal.any([signal, AbortSignal.timeout(LOOK_MS_MAX)]),
    })
    if (seen.kind !== 'answered') return seen.kind
    if (seen.status !== 402) return 'other_answer'
    const header = [seen.headers['payment-required']].flat()[0]
    return seenTerms(header, asked.url, listed).difference === undefined ? 'ok' : 'other_terms'
  }

  return {
    name: 'door looks',
    start: () => deps.handle(DOOR_LOOK_PROTOCOL, accept, { relayed: false }),
    async stop() {
      closing.abort(new Error('the node is stopping'))
      await Promise.all(served)
    },
  }
}

/** Undefined: not the plain address of this agent. */
function addressOf({ agent_id: agentId, url: text }: DoorLook): URL | undefined {
  if (!AgentId.safeParse(agentId).success || !URL.canParse(text)) return undefined
  const url = new URL(text)
  const isPlain = url.protocol === 'https:' && url.pathname === `/x402/${agentId}` && url.href === text
  const isOpenPort = url.port === '' || Number(url.port) >= PORT_MIN
  return isPlain && isOpenPort && url.username === '' && url.password === '' && url.search === '' && url.hash === ''
    ? url
    : undefined
}

/** A name with one address that may not be reached is unknown. */
function lookupAmong(mayReach: (address: string) => boolean) {
  return checkedLookup((addresses) =>
    addresses.length > 0 && addresses.every(mayReach) ? undefined : new Error('the name leads nowhere'),
  )
}

/** Asks a peer to look. @throws the stream's error, the signal's reason, or an error for an answer that is none */
export async function askForLook(stream: Stream, asked: DoorLook, signal: AbortSignal): Promise<LookCode> {
  const framed = new FramedStream(stream)
  try {
    await framed.writeText('look', JSON.stringify(asked), signal)
    const frame = await framed.read(signal)
    if (frame?.type !== 'seen') throw new Error('the peer did not say what it saw')
    return DoorSeen.parse(jsonOf(frame.data)).code
  } finally {
    stream.abort(new Error('the look is over'))
  }
}
