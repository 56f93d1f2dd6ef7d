import { receiptOf } from '../../payments/receipt.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { SignedReceipt } from '../../schema/signed-receipt.ts'
import type { Claim } from '../../store/payments.ts'
import type { PaidRunDeps } from './exchange.ts'

/** Signs a receipt for the delivered result. It has no transaction unless the payment was settled first. */
export function issueReceipt(
  payment: Pick<Claim, 'id' | 'agentId' | 'correlationId' | 'signed' | 'requirements'> & { txHash?: Hex | undefined },
  task: string,
  result: string,
  deps: Pick<PaidRunDeps, 'clock' | 'logger' | 'signReceipt'>,
): SignedReceipt | undefined {
  const { id: paymentId, agentId, txHash } = payment
  const { network } = payment.requirements
  const { from: payer } = payment.signed.authorization
  try {
    const delivery = { network, agentId, payer, paymentId, task, result, txHash }
    return deps.signReceipt(receiptOf(delivery, deps.clock.now()))
  } catch (error) {
    const ids = { payment_id: paymentId, correlation_id: payment.correlationId }
    deps.logger.error({ ...ids, err: error }, 'could not sign a receipt; the result goes without it')
    return undefined
  }
}
