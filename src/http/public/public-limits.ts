import type { Clock } from '../../lib/clock.ts'
import { Hold } from '../../lib/hold.ts'
import { TokenBuckets } from '../../lib/token-buckets.ts'

export type PublicLimitsOptions = {
  /** Requests of one site at once, and of all. */
  atOncePerSite: number
  atOnce: number
  /** Bytes of bodies that are held, of one site and of all. */
  bytesPerSite: number
  bytes: number
  /** Requests a second of one site, without and with a payment. */
  asks: { burst: number; perSecond: number }
  payments: { burst: number; perSecond: number }
}

export const publicLimits: PublicLimitsOptions = {
  atOncePerSite: 128,
  atOnce: 1_024,
  bytesPerSite: 32 * 1024 * 1024,
  bytes: 128 * 1024 * 1024,
  asks: { burst: 400, perSecond: 100 },
  payments: { burst: 400, perSecond: 100 },
}

/** Payments that a payment costs which took work and was of no use. */
const FAULT_PAYMENTS = 10
const SITES_MAX = 10_000

/** Why a request is not answered now. `site`: its sender has too much under way. `all`: everybody together has. */
type Refusal = 'site' | 'all'

/** What strangers may use of the public listener. A site that uses nothing takes no memory. */
export class PublicLimits {
  readonly #options: PublicLimitsOptions
  readonly #clock: Clock
  readonly #asks: TokenBuckets
  readonly #payments: TokenBuckets
  readonly #requests = new Shares()
  readonly #bytes = new Shares()

  constructor(options: PublicLimitsOptions, { clock }: { clock: Clock }) {
    this.#options = options
    this.#clock = clock
    this.#asks = new TokenBuckets({ ...options.asks, keysMax: SITES_MAX })
    this.#payments = new TokenBuckets({ ...options.payments, keysMax: SITES_MAX })
  }

  /** Takes the place of a request. The paid ones have a rate of their own: unpaid ones of a shared address keep none out. */
  enter(site: string, isPaid: boolean): Hold | Refusal {
    const { atOnce, atOncePerSite } = this.#options
    if (!(isPaid ? this.#payments : this.#asks).take(site, 1, this.#clock.now())) return 'site'
    return this.#requests.take(site, 1, { each: atOncePerSite, all: atOnce })
  }

  /** Takes room for a body before it is read. */
  hold(site: string, bytes: number): Hold | Refusal {
    const { bytes: all, bytesPerSite: each } = this.#options
    return this.#bytes.take(site, bytes, { each, all })
  }

  /** Charges a site for a payment that took work and was of no use. */
  blame(site: string): void {
    for (let taken = 0; taken < FAULT_PAYMENTS; taken++) {
      if (!this.#payments.take(site, 1, this.#clock.now())) return
    }
  }
}

/** Sums by site, and of all. */
class Shares {
  readonly #of = new Map<string, number>()
  #all = 0

  take(site: string, amount: number, max: { each: number; all: number }): Hold | Refusal {
    const own = this.#of.get(site) ?? 0
    // A single large request is let in where nothing else is.
    if (own > 0 && own + amount > max.each) return 'site'
    if (this.#all > 0 && this.#all + amount > max.all) return 'all'
    this.#add(site, amount)
    return new Hold(() => this.#add(site, -amount))
  }

  #add(site: string, amount: number): void {
    this.#all += amount
    const own = (this.#of.get(site) ?? 0) + amount
    if (own > 0) this.#of.set(site, own)
    else this.#of.delete(site)
  }
}
