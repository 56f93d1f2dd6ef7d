import type { Clock } from '../lib/clock.ts'
import type { StoredLosses } from '../store/losses.ts'
import type { Payments } from '../store/payments.ts'
import { DISTRUST_MS, LOSERS_MAX, LOSS_SLOT_MS, type Loss, Losses } from './losses.ts'

type KnownLossesDeps = { clock: Clock; payments: Pick<Payments, 'lost'> }

/** A loss may be noted while the losses are read. */
const READS_MAX = 3

/** The recent losses of all processes. This process notes its own, and reads all of them when others have noted some. */
export class KnownLosses {
  readonly #deps: KnownLossesDeps
  #losses = new Losses({ slots: [], payers: [] })
  /** The number of the ledger that these losses have: `Exposed.losses`. */
  #number = 0
  #own = 0
  #reading: Promise<StoredLosses> | undefined

  constructor(deps: KnownLossesDeps) {
    this.#deps = deps
  }

  /** How often this process has noted a loss, or that one went. */
  get own(): number {
    return this.#own
  }

  lately(): bigint {
    return this.#losses.lately(this.#deps.clock.now())
  }

  isDistrusted(payer: string): boolean {
    return this.#losses.isDistrusted(payer, this.#deps.clock.now())
  }

  add(loss: Loss): void {
    this.#own += 1
    this.#losses.add(loss)
  }

  /** @param loss undefined: what was undone was no loss */
  takeBack(loss: Loss | undefined): void {
    this.#own += 1
    if (loss !== undefined) this.#losses.takeBack(loss)
  }

  /** Notes that the ledger has counted what this process knows. */
  counted(noted: number, { number, own }: { number: number; own: number }): Promise<void> {
    if (noted !== own || number !== this.#number + noted) return this.readIfNew(number)
    this.#number = number
    return Promise.resolve()
  }

  async readIfNew(number: number): Promise<void> {
    if (number !== this.#number) await this.read(number)
  }

  /** Reads all losses. @param number that of the ledger, read before */
  read(number: number): Promise<StoredLosses> {
    this.#reading ??= this.#readAll(number).finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async #readAll(number: number): Promise<StoredLosses> {
    const { payments, clock } = this.#deps
    for (let reads = 1; ; reads++) {
      const own = this.#own
      const stored = await payments.lost(clock.now() - DISTRUST_MS, { slotMs: LOSS_SLOT_MS, payersMax: LOSERS_MAX })
      if (own !== this.#own && reads < READS_MAX) continue
      this.#losses = new Losses(stored)
      this.#number = number
      return stored
    }
  }
}
