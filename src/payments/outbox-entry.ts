import type { Clock, UnixMs } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Claim, Payments, StoredPayment } from '../store/payments.ts'
import { type OwedPayment, reopened } from './payment.ts'

/**
 * Retries a payment for the operator. The outbox looks at an owed payment at once. One that was given up is looked up on chain,
 * and tried once more while its authorization is valid. @throws CodedError PAYMENT_FINAL: nothing can be done
 */
export async function retrySettlement(
  id: Hex,
  {
    payments,
    clock,
    wake,
    hasChain = false,
  }: { payments: Pick<Payments, 'get' | 'reopen' | 'hastenOne'>; clock: Clock; wake(): void; hasChain?: boolean },
): Promise<void> {
  const payment = await payments.get(id)
  const now = clock.now()
  let isDue = false
  if (payment?.state === 'owed') isDue = await payments.hastenOne(id, now)
  if (payment?.state === 'unsettled') {
    if (now >= validBeforeMs(payment) && !hasChain) {
      const advice = 'set ETHEREUM_RPC_URL to look whether it was settled after all'
      throw new CodedError('PAYMENT_FINAL', `its authorization has expired: it can never be settled; ${advice}`)
    }
    const { attempts, error = '' } = payment
    isDue = await payments.reopen(reopened({ state: 'unsettled', id, attempts, error }, now), now)
  }
  if (!isDue) throw new CodedError('PAYMENT_FINAL', 'nothing is left to settle: see its state')
  wake()
}

export function owedOf(payment: StoredPayment): OwedPayment {
  return {
    state: 'owed',
    id: payment.id,
    attempts: payment.attempts,
    nextAttemptAt: payment.nextAttemptAt ?? 0,
    unclear: payment.unclear,
    txHash: payment.txHash,
    error: payment.error,
  }
}

export function validBeforeMs(payment: Pick<Claim, 'signed'>): UnixMs {
  return Number(payment.signed.authorization.validBefore) * 1000
}
