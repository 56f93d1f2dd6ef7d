import type { Connection } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'
import { reasonOf } from '../lib/errors.ts'
import { orAbandon } from './waiting.ts'

/** Opens a connection to one address. It need not obey the signal at once. */
export type DialAddress = (address: Multiaddr, signal: AbortSignal) => Promise<Connection>

export type DialTiming = {
  /** A further address is tried after this long without an answer, or at once after a failure. */
  staggerMs: number
  /** No address is waited for longer than this. */
  attemptMs: number
}

/** No address answered; says of each why. */
export class DialFailed extends Error {
  override name = 'DialFailed'

  constructor(failures: readonly { address: Multiaddr; error: unknown }[]) {
    const reasons = failures.map(({ address, error }) => `${address}: ${reasonOf(error)}`)
    super(reasons.join('; ') || 'no address known that this node can dial', { cause: failures[0]?.error })
  }
}

/**
 * Dials a peer at all its addresses, each a little after the one before, and keeps the first that answers.
 *
 * libp2p's own queue tries them one by one and waits 6 s for each: an address that swallows packets (another network's
 * private one, say) would eat the caller's whole time.
 */
export function dialFirst(
  addresses: readonly Multiaddr[],
  dial: DialAddress,
  timing: DialTiming,
  signal: AbortSignal,
): Promise<Connection> {
  const attempts = new Set<AbortController>()
  const failures: { address: Multiaddr; error: unknown }[] = []
  let next = 0
  let stagger: NodeJS.Timeout | undefined
  let over = false

  const { promise, resolve, reject } = Promise.withResolvers<Connection>()
  const giveUp = () => finish(() => reject(signal.reason))

  function finish(settle: () => void): void {
    if (over) return
    over = true
    clearTimeout(stagger)
    signal.removeEventListener('abort', giveUp)
    for (const attempt of attempts) attempt.abort(new Error('another address answered first'))
    settle()
  }

  function advance(): void {
    clearTimeout(stagger)
    const address = addresses[next]
    if (over) return
    if (address !== undefined) {
      next += 1
      void tryAddress(address)
      stagger = setTimeout(advance, timing.staggerMs)
    } else if (attempts.size === 0) {
      finish(() => reject(new DialFailed(failures)))
    }
  }

  async function tryAddress(address: Multiaddr): Promise<void> {
    // One controller each: TCP keeps the signal of its dial, and a winner must outlive the losers' abort.
    const attempt = new AbortController()
    attempts.add(attempt)
    const limit = setTimeout(() => attempt.abort(new Error(`no answer in ${timing.attemptMs} ms`)), timing.attemptMs)
    try {
      const connection = await orAbandon(dial(address, attempt.signal), attempt.signal)
      attempts.delete(attempt)
      finish(() => resolve(connection))
    } catch (error) {
      attempts.delete(attempt)
      failures.push({ address, error })
      advance()
    } finally {
      clearTimeout(limit)
    }
  }

  if (signal.aborted) giveUp()
  else {
    signal.addEventListener('abort', giveUp, { once: true })
    advance()
  }
  return promise
}

type Dial = (signal: AbortSignal) => Promise<Connection>
type SharedDial = { promise: Promise<Connection>; controller: AbortController; waiting: number; begunAt: number }

/** A dial older than this is not joined: what was shut when it began may be open now. */
const JOINED_MS_MAX = 500

/**
 * Dials shared by all who want the same key (a peer, and how) at about the same time. Each goes on as long as one of them
 * waits.
 *
 * A dial that another caller began does not speak for a later one: a caller that comes late begins its own, and one that
 * joined a dial which fails tries once more.
 */
export class SharedDials {
  readonly #running = new Map<string, SharedDial>()
  readonly #now: () => number

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  async dial(key: string, dial: Dial, signal: AbortSignal): Promise<Connection> {
    const running = this.#running.get(key)
    if (running === undefined || this.#now() - running.begunAt > JOINED_MS_MAX) {
      return this.#wait(key, this.#begin(key, dial), signal)
    }
    try {
      return await this.#wait(key, running, signal)
    } catch {
      signal.throwIfAborted()
      return this.#wait(key, this.#running.get(key) ?? this.#begin(key, dial), signal)
    }
  }

  async #wait(key: string, shared: SharedDial, signal: AbortSignal): Promise<Connection> {
    shared.waiting += 1
    try {
      return await orAbandon(shared.promise, signal)
    } finally {
      shared.waiting -= 1
      if (shared.waiting === 0) {
        this.#forget(key, shared)
        shared.controller.abort(new Error('nobody waits for this dial any more'))
      }
    }
  }

  #begin(key: string, dial: Dial): SharedDial {
    const controller = new AbortController()
    const shared = { promise: dial(controller.signal), controller, waiting: 0, begunAt: this.#now() }
    this.#running.set(key, shared)
    const forget = () => this.#forget(key, shared)
    shared.promise.then(forget, forget)
    return shared
  }

  #forget(key: string, shared: SharedDial): void {
    if (this.#running.get(key) === shared) this.#running.delete(key)
  }
}
