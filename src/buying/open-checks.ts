import { setImmediate as nextTurn } from 'node:timers/promises'
import { BoundedMap } from '../lib/bounded-map.ts'
import { type Clock, monotonicOf } from '../lib/clock.ts'
import { doubledMs } from '../lib/retry.ts'
import type { OpenPosition, OpenPurchase } from '../store/open-purchases.ts'
import type { Purchases } from '../store/purchases.ts'

/** Purchases checked per turn. */
const BATCH_MAX = 512
/** The same for purchases that only the seller can say more about. One question covers many of them. */
const UNNAMED_MAX = 4_096
/** Purchases read in one turn of the event loop. */
const PAGE_MAX = 1_000
/** Open purchases of one list that are read per turn, and checks that are remembered. */
const OPEN_MAX = 200_000
const DAY_MS = 24 * 60 * 60 * 1000
/** After this time an open purchase is checked once a day. Its payment window ended long before. */
const OLD_MS = 7 * DAY_MS
const DELAY = { firstMs: 2_000, mostMs: 10 * 60 * 1000 }
/** The chain's clock may lag behind ours, so an authorization is judged this long after its window. */
export const EXPIRY_MARGIN_MS = 30_000

type OpenChecksDeps = {
  clock: Clock
  purchases: Pick<Purchases, 'open'>
  /** Orders that this process works on. */
  active: { has(orderId: string): boolean }
  network: string
  /** Undefined: nobody can be asked what became of a payment. */
  chain?: unknown
}

/** The last check, the number of checks before or after the end of the payment window, and on which side it was. */
type Check = { at: number; count: number; isOver: boolean }

/**
 * Chooses the open purchases to check next: first purchases never checked, then purchases checked longest ago. Old
 * purchases that stay open, for example for a week without an RPC, then hide no newer ones.
 */
export class OpenChecks {
  readonly #deps: OpenChecksDeps
  /** The last check of each purchase, by the monotonic clock. Latest last. */
  readonly #checks = new BoundedMap<string, Check>(OPEN_MAX)

  constructor(deps: OpenChecksDeps) {
    this.#deps = deps
  }

  /** Returns the purchases to check now, and notes their check. `all` are the open purchases that no caller works on. */
  async next(signal: AbortSignal): Promise<{ due: OpenPurchase[]; all: OpenPurchase[] }> {
    const all = await this.#read(signal)
    const waiting = all.filter((purchase) => this.#waitFor(purchase) <= 0)
    const { unnamed = [], others = [] } = Object.groupBy(waiting, ({ list }) => (list === 'unnamed' ? list : 'others'))
    const due = [...this.#longestAgo(others, BATCH_MAX), ...this.#longestAgo(unnamed, UNNAMED_MAX)]
    for (const purchase of due) this.#note(purchase)
    return { due, all }
  }

  /** Purchases never checked, then purchases checked longest ago, at most `most`. */
  #longestAgo(purchases: OpenPurchase[], most: number): OpenPurchase[] {
    if (purchases.length <= most) return purchases
    const checkedAt = ({ orderId }: OpenPurchase) => this.#checks.get(orderId)?.at ?? Number.NEGATIVE_INFINITY
    purchases.sort((a, b) => (checkedAt(a) === checkedAt(b) ? 0 : checkedAt(a) < checkedAt(b) ? -1 : 1))
    return purchases.slice(0, most)
  }

  /** Returns ms until the next of these purchases is due, at most `most`. */
  waitFor(purchases: readonly OpenPurchase[], most: number): number {
    return purchases.reduce((wait, purchase) => Math.min(wait, this.#waitFor(purchase)), most)
  }

  async #read(signal: AbortSignal): Promise<OpenPurchase[]> {
    const { purchases, clock, active, network, chain } = this.#deps
    const found = new Map<string, OpenPurchase>()
    // Without an RPC nobody can confirm what was bought. Only the seller can still name its transaction.
    const bought = chain === undefined ? 'unnamed' : 'unconfirmed'
    for (const list of ['reserved', bought, 'unreceived'] as const) {
      const since = list === 'unnamed' ? clock.now() - OLD_MS : 0
      let after: OpenPosition | undefined
      do {
        const page = await purchases.open(list, { network, since, after, limit: PAGE_MAX })
        for (const purchase of page) if (!active.has(purchase.orderId)) found.set(purchase.orderId, purchase)
        after = page.length < PAGE_MAX ? undefined : page.at(-1)!.position
        if (after !== undefined) await nextTurn()
      } while (after !== undefined && found.size < OPEN_MAX && !signal.aborted)
    }
    return [...found.values()]
  }

  /**
   * Doubles the pause after each check, so that a vanished seller costs little. After the payment window it begins
   * anew: the chain then decides, and a reservation should not stay 10 minutes longer if it could not be asked once.
   */
  #note({ orderId, validBeforeSeconds }: OpenPurchase): void {
    const { clock } = this.#deps
    const isOver = clock.now() > validBeforeSeconds * 1000 + EXPIRY_MARGIN_MS
    const last = this.#checks.get(orderId)
    const count = last?.isOver === isOver ? last.count + 1 : 1
    this.#checks.set(orderId, { at: monotonicOf(clock), count, isOver })
  }

  /**
   * Returns ms until the next check, by the monotonic clock. A change of the wall clock does not stop the checks. Never
   * waits past the end of the payment window, because a retry may wait for the reservation to be released.
   */
  #waitFor({ orderId, validBeforeSeconds }: OpenPurchase): number {
    const last = this.#checks.get(orderId)
    if (last === undefined) return 0
    const { clock } = this.#deps
    const sinceLast = monotonicOf(clock) - last.at
    const toExpiry = validBeforeSeconds * 1000 + EXPIRY_MARGIN_MS + 1 - clock.now()
    const isOld = clock.now() > validBeforeSeconds * 1000 + OLD_MS
    const wait = (isOld ? DAY_MS : doubledMs(last.count, DELAY)) - sinceLast
    return toExpiry + sinceLast > 0 ? Math.min(wait, toExpiry) : wait
  }
}
