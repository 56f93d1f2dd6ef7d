import dns from 'node:dns/promises'
import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import type { Logger } from '../lib/logger.ts'
import { type Backoff, backoffMs } from '../lib/retry.ts'
import { idle, orAborted } from '../lib/wait.ts'
import type { PeerAddresses } from './multiaddrs.ts'

/** Names followed, as one name may lead to others; and peers taken from them. */
const NAMES_MAX = 8
const PEERS_MAX = 16
const RECORDS_MAX = 64
const TXT = 16
const ASK_TIMEOUT_MS = 10_000

/** Asks name servers: libp2p's resolver, or that of a test. */
export type Dns = {
  query(domain: string, options: { types: number[]; signal: AbortSignal }): Promise<{ Answer: { data: string }[] }>
}

export const systemDns = {
  async query(domain: string) {
    const records = await dns.resolveTxt(domain)
    return { Answer: records.map((pieces) => ({ data: pieces.join('') })) }
  },
} satisfies Dns

export type NamedPeersTiming = {
  /** Wait after the first failure, and the longest wait after many failures. */
  retry: Backoff
  /** How often a name that led to peers is resolved again, because its peers may change. */
  askNamesEveryMs: number
}

type NamedPeersDeps = {
  dns: Dns
  logger: Logger
  ownPeerId: string
  /** Keeps a connection with a peer until the signal aborts. */
  keep(peer: PeerAddresses, signal: AbortSignal): Promise<void>
}

/**
 * Stays connected with the peers that an operator's name leads to (`/dnsaddr/<name>`). libp2p itself would connect
 * once, to the first peer that answers.
 */
export class NamedPeers {
  readonly name: string
  readonly #kept = new Map<string, AbortController>()

  constructor(name: string) {
    this.name = name
  }

  has(peerId: string): boolean {
    return this.#kept.has(peerId)
  }

  async run(timing: NamedPeersTiming, deps: NamedPeersDeps, signal: AbortSignal): Promise<void> {
    const { name } = this
    const running = new Set<Promise<void>>()
    let failures = 0
    do {
      try {
        const found = await peersOf(name, deps.dns, signal)
        if (found.length === 0) throw new Error(`_dnsaddr.${name} has no TXT record dnsaddr=/…/p2p/<peer id>`)
        failures = 0
        this.#keep(found, deps, running, signal)
      } catch (error) {
        if (signal.aborted) break
        failures += 1
        const log = failures === 1 || failures % 20 === 0 ? deps.logger.warn : deps.logger.debug
        const fields = { address: name, count: failures, err: error }
        log.call(deps.logger, fields, 'a bootstrap name leads nowhere; trying again')
      }
    } while (await idle(failures > 0 ? backoffMs(failures, timing.retry) : timing.askNamesEveryMs, signal))
    for (const one of this.#kept.values()) one.abort(signal.reason)
    await Promise.all(running)
  }

  #keep(found: PeerAddresses[], deps: NamedPeersDeps, running: Set<Promise<void>>, signal: AbortSignal): void {
    const wanted = new Map(found.filter(({ peerId }) => peerId !== deps.ownPeerId).map((peer) => [peer.peerId, peer]))
    for (const [peerId, one] of this.#kept) {
      if (wanted.has(peerId)) continue
      one.abort(new Error('its name now leads to other addresses'))
      this.#kept.delete(peerId)
    }
    for (const [peerId, peer] of wanted) {
      if (this.#kept.has(peerId)) continue
      const controller = new AbortController()
      this.#kept.set(peerId, controller)
      const kept = deps.keep(peer, AbortSignal.any([signal, controller.signal])).finally(() => running.delete(kept))
      running.add(kept)
    }
  }
}

/**
 * The peers of a name. Each has the address of the name that lists it, so that its addresses are resolved again at each
 * dial.
 */
async function peersOf(first: string, dns: Dns, signal: AbortSignal): Promise<PeerAddresses[]> {
  const names = new Set([first])
  const peers = new Map<string, Multiaddr>()
  for (const name of names) {
    for (const { data } of await recordsOf(name, dns, signal)) {
      const parts = componentsOf(data)
      const peerId = parts.findLast((part) => part.name === 'p2p')?.value
      const [head] = parts
      if (peerId !== undefined) {
        if (peers.size < PEERS_MAX) peers.set(peerId, multiaddr(`/dnsaddr/${name}/p2p/${peerId}`))
      } else if (head?.name === 'dnsaddr' && head.value !== undefined && names.size < NAMES_MAX) names.add(head.value)
    }
  }
  return Array.from(peers, ([peerId, address]) => ({ peerId, addresses: [address] }))
}

async function recordsOf(name: string, dns: Dns, signal: AbortSignal): Promise<{ data: string }[]> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(ASK_TIMEOUT_MS)])
  const asked = dns.query(`_dnsaddr.${name}`, { types: [TXT], signal: limit })
  const { Answer } = await orAborted(asked, limit)
  return Answer.slice(0, RECORDS_MAX)
}

/** The parts of a TXT record such as `dnsaddr=/ip4/…`. Any other record gives none. */
function componentsOf(record: string): { name: string; value?: string | undefined }[] {
  const text = record.replace(/["']/g, '').trim()
  if (!text.startsWith('dnsaddr=') || text.length > 1024) return []
  try {
    return multiaddr(text.slice('dnsaddr='.length)).getComponents()
  } catch {
    return []
  }
}
