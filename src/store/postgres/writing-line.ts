import { backoffMs } from '../../lib/retry.ts'
import { pause } from '../../lib/wait.ts'
import { StoreError } from '../store-error.ts'
import type { Connection } from './connection.ts'
import { away } from './errors.ts'
import type { Fence, Holder } from './holder.ts'
import type { Sent } from './sent.ts'
import type { PostgresSettings } from './settings.ts'

/** What waits for a connection. */
type Waiting = {
  readonly since: number
  readonly reject: (reason: unknown) => void
  isDone: boolean
  readonly isInDoubt: boolean
}

type LineDeps = {
  settings: PostgresSettings
  holder: Holder
  connect(): Promise<Connection>
  /** How long a change waits while the database is away. */
  waitMs: number
  onLost(error: StoreError): void
}

const BACKOFF = { firstMs: 20, mostMs: 1_000 }

/** The one connection that writes. It is made anew when it is lost, and only then may write. */
export class Line {
  readonly #deps: LineDeps
  #connection: Connection | undefined
  #committed = 0
  #lost: StoreError | undefined

  /** @param connection the one with which the ledger was taken */
  constructor(connection: Connection, deps: LineDeps) {
    this.#connection = connection
    this.#deps = deps
  }

  /**
   * The connection. While there is none, what has waited for too long is refused.
   *
   * @returns undefined if all of the first group were refused meanwhile, or the ledger is lost
   */
  async connection(waiting: readonly (readonly Waiting[])[]): Promise<Connection | undefined> {
    for (let failures = 1; ; failures += 1) {
      if (this.#lost === undefined && this.#connection?.isLost() === false) return this.#connection
      let reason: StoreError | undefined
      try {
        if (this.#lost === undefined) await this.#rejoin()
        else reason = this.#lost
      } catch (error) {
        reason = away(error, this.#deps.settings)
      }
      if (reason === undefined) continue
      this.refuseLate(waiting, reason)
      if (this.#lost !== undefined || waiting[0]!.every(({ isDone }) => isDone)) return undefined
      await pause(backoffMs(failures, BACKOFF))
    }
  }

  fence(): Fence {
    return this.#deps.holder.fence()
  }

  /** The group with this fence was committed. */
  renewed({ at }: Fence): void {
    this.#deps.holder.renewed(at)
  }

  renewal(): Sent {
    return this.#deps.holder.renewal()
  }

  /** Refuses changes that have waited for too long or can never be done. */
  refuseLate(waiting: readonly (readonly Waiting[])[], reason: StoreError): void {
    for (const each of waiting.flat()) this.#refuseLate(each, reason)
  }

  /** The number of the group that was committed last, when the connection was made. */
  committed(): number {
    return this.#committed
  }

  /** Others have ended this process. */
  lost(): StoreError | undefined {
    return this.#lost
  }

  /** The connection has lost the right to write. */
  drop(): void {
    this.#connection?.destroy()
    this.#connection = undefined
  }

  async close(): Promise<void> {
    const connection = this.#connection
    if (connection === undefined || connection.isLost()) return
    // If it fails, the lease ends by itself.
    await this.#deps.holder.leave(connection).catch(() => {})
    await connection.close()
  }

  async #rejoin(): Promise<void> {
    this.drop()
    const connection = await this.#deps.connect()
    try {
      const { no, isHeld } = await this.#deps.holder.rejoin(connection)
      this.#committed = no
      if (isHeld) {
        this.#connection = connection
        return
      }
    } catch (error) {
      connection.destroy()
      throw error
    }
    connection.destroy()
    this.#lost = this.#deps.holder.lostError()
    this.#deps.onLost(this.#lost)
  }

  #refuseLate(each: Waiting, reason: StoreError): void {
    const isLate = performance.now() - each.since >= this.#deps.waitMs
    // With the ledger it was found out what became of those in doubt.
    if (each.isDone || (this.#lost === undefined ? !isLate : each.isInDoubt)) return
    each.isDone = true
    each.reject(each.isInDoubt ? doubt(reason) : reason)
  }
}

function doubt(reason: StoreError): StoreError {
  const what = 'a change was being committed when the connection was lost: it may be written'
  return new StoreError('STORE_IN_DOUBT', `${what}; look what is there before you ask again. ${reason.message}`, {
    cause: reason,
  })
}
