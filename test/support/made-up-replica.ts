import type { Stream } from '@libp2p/interface'
import { readListing } from '../../src/listings/signed-listing.ts'
import { ListingSide } from '../../src/listings/sync-side.ts'
import { FramedStream } from '../../src/protocols/framed-stream.ts'
import { elementKey } from '../../src/protocols/sync/reconcile/element-key.ts'
import { RangeIndex } from '../../src/protocols/sync/reconcile/range-index.ts'
import { openSync, serveSync } from '../../src/protocols/sync/sync.ts'

/**
 * A peer that reconciles by the protocol over any given records, true or forged, and counts the records it receives.
 */
export class MadeUpReplica {
  readonly #index = new RangeIndex()
  readonly #envelopes = new Map<string, Uint8Array>()
  readonly taken: Uint8Array[] = []
  /** Number of its own records that the other side requested. */
  handed = 0

  constructor(envelopes: readonly Uint8Array[]) {
    for (const envelope of envelopes) {
      const read = readListing(envelope)
      if (!read.ok) throw new Error(read.reason)
      const key = elementKey(read.entry.record.updated_at, read.entry.hash)
      this.#index.add(key)
      this.#envelopes.set(Buffer.from(key).toString('hex'), envelope)
    }
  }

  serve(stream: Stream): Promise<void> {
    return serveSync(new FramedStream(stream), this.#side(), { signal: AbortSignal.timeout(10_000) })
  }

  /** Resolves when the other side has ended and all received records are checked. */
  async open(stream: Stream): Promise<void> {
    const [framed, signal] = [new FramedStream(stream), AbortSignal.timeout(10_000)]
    await openSync(framed, this.#side(), { signal })
    await framed.read(signal)
  }

  #side(): ListingSide {
    const state = {
      view: () => this.#index.snapshot(),
      envelopes: (keys: readonly Uint8Array[]) => {
        this.handed += keys.length
        return keys.map((key) => this.#envelopes.get(Buffer.from(key).toString('hex'))!)
      },
      learnAll: async (envelopes: readonly Uint8Array[]) => {
        this.taken.push(...envelopes)
        return { news: envelopes.length }
      },
      write: async () => {},
    }
    return new ListingSide(
      { peerId: 'anybody', listingsMax: 1e9, bytesMax: 1e12, takes: true },
      { state, gossip: { noteCaughtUp: () => {} } },
    )
  }
}
