import { BoundedMap } from '../lib/bounded-map.ts'
import { askChain, type PaymentChain } from './chain-verdict.ts'
import type { Facilitator, SettleOutcome } from './facilitator.ts'

/** Authorizations whose facilitator is remembered. Older ones are settled, or start again at the first facilitator. */
const REMEMBERED_MAX = 10_000

/**
 * Tries facilitators in order: if one cannot be reached, the next is its fallback.
 *
 * One that was asked may have sent the transaction, even if it answered with an error. Another is asked only if the
 * chain shows the authorization as unspent; without an answer of the chain the payment stays where it was asked last.
 */
export function withFallbacks(
  facilitators: readonly [Facilitator, ...Facilitator[]],
  chain?: PaymentChain,
): Facilitator {
  const [first] = facilitators
  if (facilitators.length === 1) return first
  /** The facilitator last asked for each authorization, by index. */
  const asked = new BoundedMap<string, number>(REMEMBERED_MAX)

  return {
    async settle(signed, requirements, signal) {
      const { authorization } = signed
      const nonce = authorization.nonce.toLowerCase()
      const before = asked.get(nonce)
      let order = facilitators.map((_, index) => index)
      if (before !== undefined) {
        const verdict = chain && (await askChain({ asset: requirements.asset, authorization }, chain, signal))
        if (verdict?.kind === 'paid') return { kind: 'settled', txHash: verdict.txHash }
        // Try the facilitator asked last at the end, and start with the next in order.
        const turned = order.map((index) => (before + 1 + index) % facilitators.length)
        order = verdict?.kind === 'unpaid' ? turned : [before]
      }
      let outcome: SettleOutcome = { kind: 'unreached', reason: 'no facilitator is set' }
      for (const index of order) {
        outcome = await facilitators[index]!.settle(signed, requirements, signal)
        if (outcome.kind === 'unreached') continue
        asked.set(nonce, index)
        return outcome
      }
      return outcome
    },
    async supports(network, signal) {
      const answers = await Promise.allSettled(facilitators.map((one) => one.supports(network, signal)))
      const said = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []))
      if (said.length > 0) return said.includes(true)
      throw (answers[0] as PromiseRejectedResult).reason
    },
    channels: facilitators.flatMap(({ channels = [] }) => channels),
    async close() {
      await Promise.allSettled(facilitators.map((one) => one.close()))
    },
  }
}
