import * as z from 'zod'

/** The book that a payment belongs to (D42). Every sum uses these words. */
export const Book = z.enum(['held', 'paid', 'not_charged', 'earned', 'owed', 'lost', 'refused', 'refunded']).meta({
  description:
    '`held`: signed, and may still be charged; `paid`: the chain shows it; `not_charged`: it cannot be charged any more; ' +
    '`earned`: received on the chain; `owed`: worked for, and settlement is under way; `lost`: worked for, and never ' +
    'paid; `refused`: never paid, and nothing ran; `refunded`: paid, and paid back by its seller',
})
export type Book = z.infer<typeof Book>
