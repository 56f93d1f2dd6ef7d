import { BaseDatastore } from 'datastore-core/base'
import type { Datastore, KeyQuery, Query } from 'interface-datastore'
import { Key } from 'interface-datastore/key'
import { CodedError } from '../lib/errors.ts'

type Wait = { signal?: AbortSignal }

type BoundedDatastoreOptions = {
  entriesMax: number
  valueBytesMax: number
  /** Keys, or beginnings of keys, that are never dropped and do not count. */
  pinned?: readonly string[]
}

/**
 * A datastore with a maximum. When it is full, it drops the entry that was not used for the longest time.
 *
 * Every peer we talk to can add any number of entries to the peer store and the DHT records. libp2p sets no bound.
 */
export class BoundedDatastore extends BaseDatastore {
  readonly #inner: Datastore
  readonly #options: BoundedDatastoreOptions
  /** Least recently used first. */
  readonly #used = new Set<string>()
  #loading: Promise<void> | undefined

  constructor(inner: Datastore, options: BoundedDatastoreOptions) {
    super()
    this.#inner = inner
    this.#options = options
  }

  override async put(key: Key, value: Uint8Array, options?: Wait): Promise<Key> {
    if (value.byteLength > this.#options.valueBytesMax) {
      throw new CodedError('VALUE_TOO_LARGE', `${value.byteLength} bytes under ${key}: more than is kept of one peer`)
    }
    this.#loading ??= this.#load()
    await this.#loading
    // Copy the value: a few bytes received from the network would keep their whole buffer of 64 KiB in memory.
    await this.#inner.put(key, new Uint8Array(value), options)
    this.#use(key.toString())
    await this.#dropExcess()
    return key
  }

  override async get(key: Key, options?: Wait): Promise<Uint8Array> {
    const value = await this.#inner.get(key, options)
    const name = key.toString()
    if (this.#used.has(name)) this.#use(name)
    return value
  }

  override async has(key: Key, options?: Wait): Promise<boolean> {
    return await this.#inner.has(key, options)
  }

  override async delete(key: Key, options?: Wait): Promise<void> {
    await this.#inner.delete(key, options)
    this.#used.delete(key.toString())
  }

  override query(query: Query, options?: Wait): ReturnType<Datastore['query']> {
    return this.#inner.query(query, options)
  }

  override queryKeys(query: KeyQuery, options?: Wait): ReturnType<Datastore['queryKeys']> {
    return this.#inner.queryKeys(query, options)
  }

  async #load(): Promise<void> {
    for await (const key of this.#inner.queryKeys({})) this.#use(key.toString())
  }

  #use(name: string): void {
    if (this.#options.pinned?.some((start) => name.startsWith(start))) return
    this.#used.delete(name)
    this.#used.add(name)
  }

  async #dropExcess(): Promise<void> {
    for (const name of this.#used) {
      if (this.#used.size <= this.#options.entriesMax) return
      this.#used.delete(name)
      await this.#inner.delete(new Key(name, false))
    }
  }
}
