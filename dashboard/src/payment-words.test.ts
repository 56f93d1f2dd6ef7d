import { expect, test } from 'vitest'
import type { Book } from './api/types.ts'
import { books, meaningOf } from './payment-words.ts'

test('D42 each book has a label and a meaning', () => {
  const words: Book[] = ['held', 'paid', 'not_charged', 'earned', 'owed', 'lost', 'refused', 'refunded']
  for (const book of words) expect(books[book].says.length).toBeGreaterThan(5)
  expect(books.not_charged.word).toBe('not charged')
})

test('D41 a settlement that only the seller claims is not called paid', () => {
  expect(meaningOf({ book: 'held', state: 'claimed' })).toMatch(/the seller says .* chain does not show the transfer/)
  expect(meaningOf({ book: 'held', state: 'claimed', settlement_note: 'this node has no RPC' })).toMatch(/no RPC/)
  expect(meaningOf({ book: 'paid', state: 'settled' })).toBe('the chain shows the transfer')
})
