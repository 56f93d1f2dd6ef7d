import type { Book, RecordedPayment } from './api/types.ts'
import type { Tone } from './parts/bits.tsx'

type Word = { word: string; tone: Tone; says: string }

/** The terms of the books (D42), each with one meaning. */
export const books: Record<Book, Word> = {
  held: { word: 'held', tone: 'busy', says: 'signed, and may still be charged' },
  paid: { word: 'paid', tone: 'good', says: 'the chain shows the transfer, or a payment channel covers it' },
  not_charged: { word: 'not charged', tone: 'plain', says: 'can no longer be charged' },
  earned: { word: 'earned', tone: 'good', says: 'received on the chain, or charged on a payment channel' },
  owed: { word: 'owed', tone: 'busy', says: 'the work is done, and settlement is still running' },
  lost: { word: 'lost', tone: 'bad', says: 'the work was done and never paid' },
  refused: { word: 'refused', tone: 'plain', says: 'never paid, and nothing ran' },
  refunded: { word: 'paid back', tone: 'plain', says: 'paid, and then paid back by the seller' },
}

/** What the books say of a payment by itself. */
const onChain: Partial<Record<Book, string>> = { paid: 'the chain shows the transfer', earned: 'received on the chain' }
/** What the books say of a call on a payment channel. */
const onChannel: Partial<Record<Book, string>> = {
  held: 'a voucher on the payment channel covers the call, and no charge is known yet',
  paid: 'charged on a payment channel',
  earned: 'charged on a payment channel: its claim brings the money',
}

type PaymentState = Pick<RecordedPayment, 'book' | 'settlement_note' | 'channel_id'> & {
  state: RecordedPayment['settlement']
}

/** Describes a payment in a sentence. Only the chain makes a payment paid or earned (D41). */
export function meaningOf({ book, state, settlement_note: note, channel_id }: PaymentState): string {
  if (channel_id !== undefined && onChannel[book] !== undefined) return onChannel[book]
  if (book === 'held' && state === 'claimed') {
    return `the seller says that the payment is settled, but the chain does not show the transfer yet${note === undefined ? '' : `: ${note}`}`
  }
  if (book === 'held' && state === 'pending') return 'the work is done, and the seller will settle the payment'
  if (book === 'held' && state === 'reserved') return 'signed; may still be charged until the payment expires'
  if (book === 'not_charged' && state === 'voided') return 'the agent failed, so nobody is charged'
  return onChain[book] ?? books[book].says
}
