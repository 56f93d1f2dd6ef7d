import { askChain, type PaymentChain } from './chain-verdict.ts'
import type { Facilitator, SettleOutcome } from './facilitator.ts'

/** Authorizations whose facilitator is remembered; those beyond are settled by now, or ask the first again. */
const REMEMBERED_MAX = 10_000

/**
 * Several facilitators in order, as one: the next is used where one cannot be reached.
 *
 * One that was asked may have sent the transaction, whatever it answered. Another is asked for the same authorization only when the
 * chain says that it is unspent; without a chain, or an answer of it, the payment stays where it is.
 */
export function inOrder(facilitators: readonly [Facilitator, ...Facilitator[]], chain?: PaymentChain): Facilitator {
  const [first] = facilitators
  if (facilitators.length === 1) return first
  /** The one that each authorization was last brought to. */
  const asked = new Map<string, number>()

  function remember(nonce: string, at: number): void {
    asked.delete(nonce)
    asked.set(nonce, at)
    if (asked.size > REMEMBERED_MAX) asked.delete(asked.keys().next().value!)
  }

  return {
    async settle(signed, requirements, signal) {
      const { authorization } = signed
      const nonce = authorization.nonce.toLowerCase()
      const before = asked.get(nonce)
      let order = facilitators.map((_, index) => index)
      if (before !== undefined) {
        const verdict = chain && (await askChain(chain, requirements.asset, authorization, undefined, signal))
        if (verdict?.kind === 'paid') return { kind: 'settled', txHash: verdict.txHash }
        // The one after it first, and itself last: it had its chance.
        const turned = order.map((index) => (before + 1 + index) % facilitators.length)
        order = verdict?.kind === 'unpaid' ? turned : [before]
      }
      let outcome: SettleOutcome = { kind: 'unreached', reason: 'no facilitator is set' }
      for (const index of order) {
        outcome = await facilitators[index]!.settle(signed, requirements, signal)
        if (outcome.kind === 'unreached') continue
        remember(nonce, index)
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
    async close() {
      await Promise.allSettled(facilitators.map((one) => one.close()))
    },
  }
}
