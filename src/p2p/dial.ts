import type { Connection } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'
import { reasonOf } from '../lib/errors.ts'
import { orAborted } from '../lib/wait.ts'

/** The longest wait for a peer that this node dials on its own account, over all its addresses. */
export const DIAL_MS_MAX = 10_000

/** Opens a connection to one address. It may take a while to obey the signal. */
type DialAddress = (address: Multiaddr, signal: AbortSignal) => Promise<Connection>

export type DialTiming = {
  /** The next address is tried after this long without an answer, or at once after a failure. */
  staggerMs: number
  /** The longest wait for one address. */
  attemptMs: number
}

type Failure = { address: Multiaddr; error: unknown }

/** No address answered. The message has each reason once, with its addresses. */
class DialFailed extends Error {
  override name = 'DialFailed'

  constructor(failures: readonly Failure[]) {
    const byReason = Map.groupBy(failures, ({ error }) => shortReason(error))
    const reasons = [...byReason].map(([reason, those]) => `${reason} at ${those.map(placeOf).join(', ')}`)
    super(reasons.join('; ') || 'no address known that this node can dial', { cause: failures[0]?.error })
  }
}

/** The code of the system, if there is one: its text repeats the address. */
function shortReason(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException
  return typeof code === 'string' && /^E[A-Z]+$/.test(code) ? code : reasonOf(error)
}

/** The address without the peer id at its end: whoever reports the failure names the peer. */
function placeOf({ address }: Failure): string {
  return address.toString().replace(/\/p2p\/[^/]+$/, '')
}

/**
 * Dials all addresses of a peer, each a little after the previous one, and keeps the first that answers.
 *
 * libp2p's own queue tries them one after another and waits 6 s for each. An address that drops packets, such as a
 * private address of another network, would use up the caller's time.
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
    // Each attempt needs its own controller. TCP keeps the signal of its dial, and the winner must survive when the
    // others are aborted.
    const attempt = new AbortController()
    attempts.add(attempt)
    const limit = setTimeout(() => attempt.abort(new Error(`no answer in ${timing.attemptMs} ms`)), timing.attemptMs)
    try {
      const connection = await orAborted(dial(address, attempt.signal), attempt.signal)
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

/** A dial older than this is not joined: a host that was closed when it began may be open now. */
const JOINED_MS_MAX = 500

/**
 * Shares dials between callers that want the same key (a peer, and how to dial it) at about the same time. A dial
 * continues while at least one caller waits.
 *
 * A failure of another caller's dial is not final for a later caller. A late caller starts its own dial. A caller that
 * joined a failing dial tries once more.
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
      return await orAborted(shared.promise, signal)
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
