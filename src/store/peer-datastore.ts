import { BaseDatastore } from 'datastore-core/base'
import { NamespaceDatastore } from 'datastore-core/namespace'
import type { Datastore, KeyQuery, Pair, Query } from 'interface-datastore'
import { Key } from 'interface-datastore/key'
import { createLane } from '../lib/lane.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import type { Database } from './database.ts'

const FLUSH_AFTER_MS = 1000
/** Wait after a failed write: the disk may stay full for long. */
const RETRY_AFTER_MS = 30_000

/** libp2p recognizes this error by its name. */
class NotFoundError extends Error {
  override name = 'NotFoundError'
}

/**
 * What libp2p remembers of other peers: an interface-datastore over the table `peer_data`.
 *
 * Held in memory and written about 1 s later, because libp2p writes a peer's entry on every new stream. A crash loses
 * the last second; `stop` loses nothing. The code that fills the store limits its size.
 */
export class PeerDatastore extends BaseDatastore implements Service {
  readonly name = 'peer-datastore'
  readonly #database: Database
  readonly #logger: Logger
  readonly #flushAfterMs: number
  readonly #values = new Map<string, Uint8Array>()
  /** Keys whose rows differ from memory. */
  #unsaved = new Set<string>()
  #timer: NodeJS.Timeout | undefined
  readonly #inTurn = createLane()
  #stopped = false

  constructor(options: { flushAfterMs?: number }, deps: { database: Database; logger: Logger }) {
    super()
    this.#database = deps.database
    this.#logger = deps.logger
    this.#flushAfterMs = options.flushAfterMs ?? FLUSH_AFTER_MS
    for (const row of this.#database.prepare('SELECT key, value FROM peer_data').iterate()) {
      this.#values.set(row.key as string, row.value as Uint8Array)
    }
  }

  /** A part of the store, for one of several hosts of a node. */
  part(name: string): Datastore {
    return new Part(this, new Key(name))
  }

  async start(): Promise<void> {}

  /** Writes everything to disk. Later changes stay in memory. */
  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    this.#timer = undefined
    await this.flush()
  }

  override put(key: Key, value: Uint8Array): Key {
    const name = key.toString()
    const held = this.#values.get(name)
    if (held !== undefined && Buffer.compare(held, value) === 0) return key
    // Copy the value: encoders return slices of large shared buffers, which the slice would keep alive.
    this.#values.set(name, new Uint8Array(value))
    this.#changed(name)
    return key
  }

  override get(key: Key): Uint8Array {
    const value = this.#values.get(key.toString())
    if (value === undefined) throw new NotFoundError(`nothing is stored under ${key}`)
    return value
  }

  override has(key: Key): boolean {
    return this.#values.has(key.toString())
  }

  override delete(key: Key): void {
    const name = key.toString()
    if (this.#values.delete(name)) this.#changed(name)
  }

  override *_all(query: Query): Generator<Pair> {
    for (const [name, value] of this.#values) {
      if (name.startsWith(query.prefix ?? '')) yield { key: new Key(name, false), value }
    }
  }

  override *_allKeys(query: KeyQuery): Generator<Key> {
    for (const name of this.#values.keys()) {
      if (name.startsWith(query.prefix ?? '')) yield new Key(name, false)
    }
  }

  /** Resolves once all changes so far are on disk, or the write has failed (which is logged). */
  async flush(): Promise<void> {
    await this.#inTurn(() => this.#write())
  }

  #changed(name: string): void {
    this.#unsaved.add(name)
    this.#schedule(this.#flushAfterMs)
  }

  #schedule(afterMs: number): void {
    if (this.#stopped) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      void this.flush()
    }, afterMs).unref()
  }

  async #write(): Promise<void> {
    const names = this.#unsaved
    if (names.size === 0) return
    this.#unsaved = new Set()
    try {
      await this.#database.write(() => {
        for (const name of names) this.#save(name)
      })
    } catch (error) {
      for (const name of names) this.#unsaved.add(name)
      this.#logger.warn({ err: error }, 'data about other peers could not be stored; trying again')
      this.#schedule(RETRY_AFTER_MS)
    }
  }

  #save(name: string): void {
    const value = this.#values.get(name)
    if (value === undefined) {
      this.#database.run('DELETE FROM peer_data WHERE key = ?', name)
    } else {
      this.#database.run('INSERT OR REPLACE INTO peer_data (key, value) VALUES (?, ?)', name, value)
    }
  }
}

/** libp2p's filters read each key as a peer's. So keys of another kind, such as those of the DHT, are left out first. */
class Part extends NamespaceDatastore {
  override query(query: Query): ReturnType<NamespaceDatastore['query']> {
    const { prefix = '/', filters = [] } = query
    return super.query({ ...query, filters: [({ key }) => key.toString().startsWith(prefix), ...filters] })
  }

  override queryKeys(query: KeyQuery): ReturnType<NamespaceDatastore['queryKeys']> {
    const { prefix = '/', filters = [] } = query
    return super.queryKeys({ ...query, filters: [(key) => key.toString().startsWith(prefix), ...filters] })
  }
}
