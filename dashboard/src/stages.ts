import type { OrderRecord, PaymentRecord } from './api/types.ts'

export type Stage = { name: string; state: 'done' | 'now' | 'later' | 'failed' }

/** Each stage that this order goes through, whether it has come there or not. */
export function stagesOf(order: OrderRecord): Stage[] {
  const { status, payment } = order
  const ended = status === 'failed' || status === 'cancelled'
  const isRunning = status === 'executing'
  const stages: Stage[] = [
    { name: 'Ordered', state: status === 'pending' ? 'now' : 'done' },
    { name: 'At work', state: status === 'pending' ? 'later' : isRunning ? 'now' : ended ? 'failed' : 'done' },
    {
      name: status === 'failed' ? 'Failed' : ended ? 'Cancelled' : 'Result',
      state: ended ? 'failed' : status === 'completed' ? 'done' : 'later',
    },
  ]
  if (payment === undefined && Number(order.price) === 0) return stages
  if (payment === undefined && status === 'completed') return stages
  const settlement = payment?.settlement
  const isPaid = settlement === 'settled'
  const isGone = settlement === 'released' || settlement === 'voided' || settlement === 'failed'
  // Signed, and the seller has not answered for it: until the signature's time is over it can be settled.
  const isOpen = settlement === 'pending' || settlement === 'claimed' || (ended && settlement === 'reserved')
  stages.push({
    name: ended && isOpen ? 'Not charged so far' : isOpen ? 'Settling' : isGone || ended ? 'Not charged' : 'Settled',
    state: isPaid || isGone ? 'done' : isOpen ? 'now' : ended ? 'done' : 'later',
  })
  return stages
}

/** Only what has been paid was received or made. */
export function paymentTitle({ direction, state }: Pick<PaymentRecord, 'direction' | 'state'>): string {
  if (state === 'settled') return direction === 'in' ? 'Payment received' : 'Payment made'
  if (state === 'failed') return 'Payment failed'
  if (state === 'voided' || state === 'released') return 'Not charged'
  return direction === 'in' ? 'Payment to come' : 'Payment signed'
}
