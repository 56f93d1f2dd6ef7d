import { proveSigner } from '../../payments/verify.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import { type Exchange, readTask, type ServedAgent, type X402ServerDeps } from './exchange.ts'
import { answerBought } from './result.ts'
import { unheardOf } from './wrapped-run.ts'

/**
 * Takes up a payment that was answered 2007, when its buyer sends it again (D39): it gets the result of that very payment, or
 * hears 2007 once more. Nothing is claimed or charged. A replay of any other payment is none of this: 2004 as ever.
 *
 * @returns whether the message was answered. @throws PeerError as long as there is no result
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
  // The task is forgotten of one that is given up; any other is paid for as it was sent first.
  const { input, exchange } = readTask(sent.body, stored.agentId, asked)
  if (stored.task !== '' && stored.task !== input) return false
  const isWith = deps.running.has(id) || stored.ran
  if (isWith && !deps.deferred.was(id)) return false
  await answerBought(stored, exchange, deps)
  return true
}

/**
 * The same for a buyer that asks anew: to be challenged again for what it has signed for, and what may yet be settled, would have
 * it pay twice. So would one that had gone before its result was there, and knows no `method: "result"`.
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
