import { proveSigner } from '../../payments/verify.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import { type Exchange, readTask, type ServedAgent, type X402ServerDeps } from './exchange.ts'
import { answerBought } from './result.ts'
import { unheardOf } from './wrapped-run.ts'

/**
 * Takes up a payment that was answered with 2007, when its buyer sends it again (D39). The buyer gets the result of
 * this payment, or 2007 again. Nothing is claimed or charged. A replay of any other payment is not taken up and gets
 * 2004.
 *
 * @returns true if the message was answered. @throws PeerError while there is no result
 */
export async function takeUp(
  sent: { payment: PaymentEnvelope; body: string; agentId?: string },
  asked: Exchange,
  deps: X402ServerDeps,
): Promise<boolean> {
  const proof = proveSigner(sent.payment, deps.asset)
  if (!proof.ok) return false
  const { paymentId: id } = proof.payment
  const stored = deps.payments.get(id)
  if (stored?.task === undefined || stored.peerId !== asked.peerId) return false
  if (sent.agentId !== undefined && sent.agentId !== stored.agentId) return false
  // The task of a payment that was given up is forgotten. Any other payment buys only the task sent first.
  const { input, exchange } = readTask(sent.body, stored.agentId, asked)
  if (stored.task !== '' && stored.task !== input) return false
  const isWith = deps.running.has(id) || stored.ran
  if (isWith && !deps.deferred.was(id)) return false
  await answerBought(stored, exchange, deps)
  return true
}

/**
 * Takes up the payment of a buyer that asks again without a payment. A new challenge for a task that the buyer has
 * already signed for would make it pay twice. The same holds for a buyer that left before its result was there and does
 * not know `method: "result"`.
 */
export async function takeUpTask(
  agent: ServedAgent,
  body: string,
  asked: Exchange,
  deps: X402ServerDeps,
): Promise<boolean> {
  // An empty task asks for the price.
  if (body === '') return false
  const { input: task, exchange } = readTask(body, agent.id, asked)
  const sought = { peerId: asked.peerId, agentId: agent.id, task }
  const id = deps.deferred.find(sought) ?? (exchange.isWrapped ? unheardOf(sought, exchange.stream, deps) : undefined)
  if (id === undefined) return false
  await answerBought(deps.payments.get(id)!, exchange, deps)
  return true
}
