import type { Claim } from '../store/payments.ts'
import { type PaymentChain, spentBefore } from './chain-verdict.ts'
import type { Facilitator, SettleOutcome } from './facilitator.ts'

/** `spent`: the authorization was used before the first attempt, as the chain shows. The facilitator was not asked. */
export type AttemptOutcome = SettleOutcome | { kind: 'spent'; reason: string }

/** The running settlement attempts. Each has a time limit, and all end with the node. */
export class SettleAttempts {
  readonly #timeoutMs: number
  readonly #deps: { facilitator: Facilitator | undefined; chain?: PaymentChain | undefined }
  readonly #underWay = new Set<AbortController>()

  constructor(timeoutMs: number, deps: { facilitator: Facilitator | undefined; chain?: PaymentChain | undefined }) {
    this.#timeoutMs = timeoutMs
    this.#deps = deps
  }

  get size(): number {
    return this.#underWay.size
  }

  /** @param isFirst true before the first attempt: an authorization that is already spent was then spent elsewhere */
  async settle(payment: Pick<Claim, 'signed' | 'requirements'>, isFirst: boolean): Promise<AttemptOutcome> {
    const { facilitator, chain } = this.#deps
    if (facilitator === undefined)
      return { kind: 'unclear', reason: 'no facilitator is configured: set FACILITATOR_URL' }
    const attempt = new AbortController()
    const timer = setTimeout(() => attempt.abort(new Error('timed out')), this.#timeoutMs)
    this.#underWay.add(attempt)
    try {
      const spent = isFirst ? await spentBefore(chain, payment, attempt.signal) : undefined
      if (spent !== undefined) return { kind: 'spent', reason: spent }
      return await facilitator.settle(payment.signed, payment.requirements, attempt.signal)
    } finally {
      clearTimeout(timer)
      this.#underWay.delete(attempt)
    }
  }

  abort(reason: Error): void {
    for (const attempt of this.#underWay) attempt.abort(reason)
  }
}
