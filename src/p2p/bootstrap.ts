import type { PeerId } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import type { Logger } from '../lib/logger.ts'
import { type Backoff, backoffMs } from '../lib/retry.ts'
import { idle } from '../lib/wait.ts'
import { DIAL_MS_MAX } from './dial.ts'
import type { Node } from './modules.ts'
import type { PeerAddresses } from './multiaddrs.ts'

/** A connection that ends sooner than this counts as a failure. */
const SHORT_LIVED_MS = 10_000

type BootstrapDeps = {
  libp2p: Node
  logger: Logger
  connected(peerId: string): boolean
  /**
   * True for one of several peers that the operator did not name. The failure of all of them is reported elsewhere
   * (`market-search.ts`).
   */
  quiet?: boolean
}

/**
 * Connects to a bootstrap peer, and reconnects when the connection is lost, until the signal aborts. libp2p's own
 * module dials only once. A node that started before its bootstrap peer would stay alone.
 */
export async function keepConnected(
  peer: PeerAddresses,
  timing: Backoff,
  { libp2p, logger, connected, quiet = false }: BootstrapDeps,
  signal: AbortSignal,
): Promise<void> {
  const fields = { peer_id: peer.peerId, address: peer.addresses.join(' ') }
  const id = peerIdFromString(peer.peerId)
  let failures = 0
  while (!signal.aborted) {
    try {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(DIAL_MS_MAX)])
      if (!connected(peer.peerId)) await libp2p.dial(peer.addresses, { signal: limit })
      // If there are too many connections, these are closed last.
      await libp2p.peerStore.merge(id, { tags: { 'stoa-bootstrap': { value: 100 } } })
      if (failures > 0) logger.info(fields, 'bootstrap peer reached')
      const since = performance.now()
      await disconnection(libp2p, id, signal)
      failures = performance.now() - since < SHORT_LIVED_MS ? failures + 1 : 1
    } catch (error) {
      if (signal.aborted) return
      failures += 1
      // Warn at the first failure, then at every 20th. The operator of a node that stands alone must learn why (T20).
      const log = !quiet && (failures === 1 || failures % 20 === 0) ? logger.warn : logger.debug
      log.call(logger, { ...fields, count: failures, err: error }, 'bootstrap peer cannot be reached; trying again')
    }
    await idle(backoffMs(failures, timing), signal)
  }
}

/** Resolves when no connection to the peer is left, or when the signal aborts. */
async function disconnection(libp2p: Node, id: PeerId, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const onDisconnect = (event: CustomEvent<PeerId>) => {
    if (event.detail.equals(id)) resolve()
  }
  const onAbort = () => resolve()
  libp2p.addEventListener('peer:disconnect', onDisconnect)
  signal.addEventListener('abort', onAbort)
  try {
    if (!signal.aborted && libp2p.getConnections(id).length > 0) await promise
  } finally {
    libp2p.removeEventListener('peer:disconnect', onDisconnect)
    signal.removeEventListener('abort', onAbort)
  }
}
