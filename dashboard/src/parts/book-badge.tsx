import type { Book } from '../api/types.ts'
import { books } from '../payment-words.ts'
import { Badge } from './bits.tsx'

/** The book of a payment (D42). */
export function BookBadge({ book }: { book: Book }) {
  const { word, tone } = books[book]
  return (
    <Badge state={book} tone={tone}>
      {word}
    </Badge>
  )
}
