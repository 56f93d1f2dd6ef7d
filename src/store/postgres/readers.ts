import { backoffMs } from '../../lib/retry.ts'
import { pause } from '../../lib/wait.ts'
import type { Query } from '../query.ts'
import { StoreError } from '../store-error.ts'
import type { Connection } from './connection.ts'
import { away, isConflict, isStalePlan, storeError } from './errors.ts'
import { checkReads, isAlone, type Reading, readEach, readOn } from './read-on.ts'
import type { PostgresSettings } from './settings.ts'

type ReaderDeps = {
  settings: PostgresSettings
  connect(): Promise<Connection>
  /** How long a read waits while the database is away. */
  waitMs: number
}

/** A read that waits for a connection. */
type WaitingRead = { readonly query: Query<unknown>; readonly settle: (reading: Reading<unknown>) => void }

const CONNECTIONS_MAX = 4
const WAITING_MAX = 20_000
/** How many reads of one statement share a round trip, if more wait than there are connections. */
const SHARED_MAX = 16
const TRIES_MAX = 5
const BACKOFF = { firstMs: 20, mostMs: 1_000 }

/** A few connections that read. */
export class Readers {
  readonly #deps: ReaderDeps
  readonly #waiting: WaitingRead[] = []
  #idle: Connection[] = []
  #count = 0
  #opening = 0
  #isClosed = false

  constructor(deps: ReaderDeps) {
    this.#deps = deps
  }

  async query<T>(query: Query<T>): Promise<T> {
    const { settings, waitMs } = this.#deps
    query.plain?.forEach(checkReads)
    const deadline = performance.now() + waitMs
    for (let failures = 1; ; failures += 1) {
      const reading = (await this.#tryOnce(query)) as Reading<T>
      if ('value' in reading) return reading.value
      if ('thrown' in reading) throw reading.thrown
      const { error, isLost } = reading
      if (isLost ? performance.now() >= deadline || this.#isClosed : failures >= TRIES_MAX || !mayPass(error)) {
        throw isLost ? away(error, settings) : storeError(error, settings)
      }
      await pause(backoffMs(failures, BACKOFF))
    }
  }

  /** Ends the reads that wait for a connection. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#refuseWaiting(this.#closed())
    await Promise.all(this.#idle.splice(0).map((connection) => connection.close()))
  }

  #tryOnce(query: Query<unknown>): Promise<Reading<unknown>> {
    if (this.#isClosed) return Promise.resolve({ error: this.#closed(), isLost: true })
    if (this.#waiting.length >= WAITING_MAX) {
      const error = new StoreError('STORE_AWAY', `${this.#deps.settings.name} is too slow: too many reads wait`)
      return Promise.resolve({ thrown: error })
    }
    return new Promise((settle) => {
      this.#waiting.push({ query, settle })
      this.#serve()
    })
  }

  #serve(): void {
    while (this.#waiting.length > 0) {
      const connection = this.#idle.pop()
      if (connection === undefined) break
      if (connection.isLost()) this.#count -= 1
      else void this.#use(connection, this.#next())
    }
    while (this.#opening < this.#waiting.length && this.#count < CONNECTIONS_MAX) void this.#open()
  }

  #next(): WaitingRead[] {
    const others = this.#waiting.findIndex(({ query }) => !isAlone(query))
    const count = Math.min(SHARED_MAX, others === -1 ? this.#waiting.length : others)
    return this.#waiting.splice(0, Math.max(1, count))
  }

  async #open(): Promise<void> {
    this.#count += 1
    this.#opening += 1
    try {
      const connection = await this.#deps.connect()
      this.#opening -= 1
      this.#giveBack(connection)
    } catch (error) {
      this.#opening -= 1
      this.#count -= 1
      // While there is another connection, it serves those who wait.
      if (this.#count === 0) this.#refuseWaiting(error as Error)
    }
  }

  async #use(connection: Connection, reads: readonly WaitingRead[]): Promise<void> {
    const [first] = reads
    if (isAlone(first!.query)) {
      const readings = await readEach(
        connection,
        reads.map(({ query }) => query),
      )
      this.#waiting.unshift(...reads.slice(readings.length))
      for (const [index, reading] of readings.entries()) reads[index]!.settle(reading)
    } else {
      const tail: Promise<unknown>[] = []
      first!.settle(await readOn(connection, first!.query, tail).catch((thrown: unknown) => ({ thrown })))
      // The caller has the value. The connection is free when its transaction has ended.
      await Promise.all(tail)
    }
    this.#giveBack(connection)
  }

  #giveBack(connection: Connection): void {
    if (connection.isLost() || this.#isClosed) {
      this.#count -= 1
      void connection.close()
    } else this.#idle.push(connection)
    this.#serve()
  }

  #refuseWaiting(error: Error): void {
    for (const { settle } of this.#waiting.splice(0)) settle({ error, isLost: true })
  }

  #closed(): StoreError {
    return new StoreError('STORE_AWAY', `${this.#deps.settings.name} is closed`)
  }
}

function mayPass(error: unknown): boolean {
  return isConflict(error) || isStalePlan(error)
}
