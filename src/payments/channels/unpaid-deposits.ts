import { BoundedMap } from '../../lib/bounded-map.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { SellerChannelStore } from '../../store/seller-channels.ts'
import { UnpaidSteps } from './unpaid-steps.ts'

/** The transaction of a deposit costs this seller about 0.001 USDC. */
const LIMITS = { cost: 1_000n, ofPayer: 20, ofAll: 200 }
const COUNTED_MAX = 10_000

type UnpaidDepositsDeps = { clock: Clock; store: Pick<SellerChannelStore, 'get'> }

/** The deposits that this seller sends into channels that have not paid for the last one. */
export class UnpaidDeposits {
  readonly #deps: UnpaidDepositsDeps
  readonly #steps: UnpaidSteps
  /** A deposit that is sent again happens once. */
  readonly #counted = new BoundedMap<Hex, true>(COUNTED_MAX)

  constructor(deps: UnpaidDepositsDeps) {
    this.#deps = deps
    this.#steps = new UnpaidSteps(LIMITS, deps)
  }

  /**
   * Counts a deposit that this seller is about to send, and whose payer is proved.
   *
   * @returns why this seller does not send it, for people. Undefined: it does. @throws StoreError
   */
  async refusal({ id, payer, nonce }: { id: Hex; payer: string; nonce: Hex }): Promise<string | undefined> {
    if (this.#counted.has(nonce)) return undefined
    const { charged = 0n } = (await this.#deps.store.get(id)) ?? {}
    const taken = this.#steps.take({ id, payer, charged })
    if (taken === undefined) return 'this seller has sent too many deposits that no call has paid for: ask it later'
    taken.keep()
    this.#counted.set(nonce, true)
    return undefined
  }
}
