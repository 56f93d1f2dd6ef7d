import type { Book, OrderRecord, PaymentRecord } from './api/types.ts'

export type Stage = { name: string; state: 'done' | 'now' | 'later' | 'failed' }

/** All stages of this order, reached or not. */
export function stagesOf(order: OrderRecord): Stage[] {
  const { status, payment } = order
  const ended = status === 'failed' || status === 'cancelled'
  const isRunning = status === 'executing'
  const stages: Stage[] = [
    { name: 'Ordered', state: status === 'pending' ? 'now' : 'done' },
    { name: 'Working', state: status === 'pending' ? 'later' : isRunning ? 'now' : ended ? 'failed' : 'done' },
    {
      name: status === 'failed' ? 'Failed' : ended ? 'Canceled' : 'Result',
      state: ended ? 'failed' : status === 'completed' ? 'done' : 'later',
    },
  ]
  if (payment === undefined && Number(order.price) === 0) return stages
  if (payment === undefined && status === 'completed') return stages
  const book = payment?.book
  if (book === 'paid') stages.push({ name: 'Paid', state: 'done' })
  else if (book === 'refunded') stages.push({ name: 'Paid back', state: 'done' })
  else if (book === 'not_charged' || (payment === undefined && ended))
    stages.push({ name: 'Not charged', state: 'done' })
  // A signed payment can be settled until its window ends, whatever the outcome of the work.
  else if (ended || status === 'completed') stages.push({ name: 'Held', state: 'now' })
  else stages.push({ name: 'Paid', state: 'later' })
  return stages
}

const titles: Record<Book, string> = {
  held: 'Payment held',
  paid: 'Payment made',
  not_charged: 'Not charged',
  earned: 'Payment received',
  owed: 'Payment owed',
  lost: 'Payment lost',
  refused: 'Payment refused',
  refunded: 'Paid back',
}

/** Only transfers on the chain count as received or made (D41, D42). */
export function paymentTitle({ book }: Pick<PaymentRecord, 'book'>): string {
  return titles[book]
}
