import type { PeerInfo } from '@libp2p/interface'
import { CID } from 'multiformats/cid'
import * as raw from 'multiformats/codecs/raw'
import { sha256 } from 'multiformats/hashes/sha2'
import type { Logger } from '../lib/logger.ts'
import { doubledMs } from '../lib/retry.ts'
import { idle } from '../lib/wait.ts'
import type { Directory } from './dht.ts'

/** The key in a DHT under which the nodes of the market publish themselves. */
const MEETING_POINT = 'stoa/market/1'
/** Nodes keep records for a day or two, but only in memory, and nodes come and go. */
const PROVIDE_EVERY_MS = 60 * 60_000
const QUERY_MS_MAX = 60_000
const FOUND_MAX = 64

export type RendezvousTiming = {
  /** Wait before the next search while too few peers are known. */
  meetEveryMs: number
}

type RendezvousDeps = {
  directory: Directory
  logger: Logger
  /** True if there is a peer to ask. */
  ready(): boolean
  /** True if enough peers are connected. Then there is no search. */
  enough(): boolean
  found(peer: PeerInfo): void
}

/** Publishes in a DHT that this node takes part in the market, and searches for others, until the signal aborts. */
export async function meetInDht(
  { meetEveryMs }: RendezvousTiming,
  { directory, logger, ready, enough, found }: RendezvousDeps,
  signal: AbortSignal,
): Promise<void> {
  const place = CID.createV1(raw.code, await sha256.digest(new TextEncoder().encode(MEETING_POINT)))
  let provideAt = 0
  let failures = 0

  do {
    if (!ready()) continue
    try {
      if (!enough()) await look()
      if (performance.now() >= provideAt) await provide()
      failures = 0
    } catch (error) {
      failures += 1
      logger.debug({ count: failures, err: error }, 'the meeting point in the DHT could not be asked')
    }
  } while (await idle(doubledMs(failures + 1, { firstMs: meetEveryMs, mostMs: 32 * meetEveryMs }), signal))

  async function look(): Promise<void> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(QUERY_MS_MAX)])
    let count = 0
    for await (const event of directory.findProviders(place, { signal: limit })) {
      if (event.name !== 'PROVIDER') continue
      for (const peer of event.providers) found(peer)
      count += event.providers.length
      if (count >= FOUND_MAX || enough()) return
    }
  }

  async function provide(): Promise<void> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(QUERY_MS_MAX)])
    let told = 0
    for await (const event of directory.provide(place, { signal: limit })) if (event.name === 'PEER_RESPONSE') told += 1
    // If nobody took the record, publish again soon.
    if (told > 0) provideAt = performance.now() + PROVIDE_EVERY_MS
  }
}
