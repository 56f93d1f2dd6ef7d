import type { Clock } from '../../lib/clock.ts'
import type { Hold } from '../../lib/hold.ts'
import { Shares } from '../../lib/shares.ts'
import { TokenBuckets } from '../../lib/token-buckets.ts'
import type { PaymentCheck } from '../../protocols/doors/payment-check.ts'
import { PaymentChecks } from './payment-checks.ts'

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

/** What a useless payment that took work costs of the rate, in payments. */
const FAULT_PAYMENTS = 10
const SITES_MAX = 10_000

/** The limit that refuses a request. `each`: of its site. `all`: of all sites together. */
export type Refusal = 'each' | 'all'

/** What strangers may use of the public listener. A site that uses nothing takes no memory. */
export class PublicLimits {
  readonly #clock: Clock
  readonly #asks: TokenBuckets
  readonly #payments: TokenBuckets
  readonly #requests: Shares
  readonly #bytes: Shares
  readonly #checks = new PaymentChecks()

  constructor(options: PublicLimitsOptions, { clock }: { clock: Clock }) {
    this.#clock = clock
    this.#asks = new TokenBuckets({ ...options.asks, keysMax: SITES_MAX })
    this.#payments = new TokenBuckets({ ...options.payments, keysMax: SITES_MAX })
    const { atOncePerSite, atOnce, bytesPerSite, bytes } = options
    // Eight sites at their limits would else keep out everybody.
    this.#requests = new Shares({ each: atOncePerSite, all: atOnce, leavesHalf: true })
    this.#bytes = new Shares({ each: bytesPerSite, all: bytes, leavesHalf: true })
  }

  /**
   * Admits a request. Paid requests have a rate of their own, so that unpaid ones of a shared address keep none out.
   *
   * @param makeRoom called if no place is left for a site that has none
   */
  enter(site: string, isPaid: boolean, makeRoom = () => {}): Hold | Refusal {
    if (!(isPaid ? this.#payments : this.#asks).take(site, 1, this.#clock.now())) return 'each'
    if (this.#requests.isShutOut(site)) makeRoom()
    return this.#requests.take(site)
  }

  /** Takes room for a body, or for an answer that is not read yet. */
  hold(site: string, bytes: number): Hold | Refusal {
    return this.#bytes.take(site, bytes)
  }

  /**
   * How a payment of this site is checked. What came of it counts for the site, or against it.
   *
   * @param isPaid false if the payment comes in the body of a request, which was admitted as one without a payment
   */
  checkOf(site: string, isPaid: boolean): PaymentCheck {
    return {
      turn: () => this.#checks.turn(site),
      paid: () => this.#checks.paid(site),
      unsettled: () => this.#checks.blame(site),
      refused: () => this.#blame(site, isPaid),
    }
  }

  /** Counts a useless payment that took work against its site. */
  #blame(site: string, isPaid: boolean): void {
    this.#checks.blame(site)
    const rate = isPaid ? this.#payments : this.#asks
    for (let taken = 0; taken < FAULT_PAYMENTS; taken++) {
      if (!rate.take(site, 1, this.#clock.now())) return
    }
  }
}
