import type { Turn } from '../../src/a2a/executor.ts'
import { paymentKeys as keys } from '../../src/schema/a2a.ts'
import { OPERATOR } from '../../src/schema/caller.ts'
import { PaymentRequirements, SignedAuthorization } from '../../src/schema/payment.ts'
import { requirements, type signed } from './payments.ts'

/** The turn of an A2A task whose message pays a test seller. */
export function payingTurn({ envelope }: Pick<ReturnType<typeof signed>, 'envelope'>): Turn {
  const payload = SignedAuthorization.encode(envelope.payload!)
  const accepted = { ...PaymentRequirements.encode(requirements()), extra: { name: 'USDC', version: '2' } }
  return {
    ids: { taskId: 'task', contextId: 'context' },
    ...{ messageId: 'm', input: 'work', url: '', caller: OPERATOR, signal: AbortSignal.timeout(60_000) },
    metadata: { [keys.status]: 'payment-submitted', [keys.payload]: { x402Version: 2, accepted, payload } },
    running: { controller: new AbortController(), canCancel: true, isCanceled: false, bytes: 0 },
  }
}
