import * as z from 'zod'

/** The book that a payment belongs to (D42). Every sum uses these words. */
export const Book = z.enum(['held', 'paid', 'not_charged', 'earned', 'owed', 'lost', 'refused', 'refunded']).meta({
  description:
    '`held`: signed, and may still be charged; `paid`: the chain shows the transfer, or a payment channel covers it; `not_charged`: can no longer be charged; ' +
    '`earned`: received on the chain, or charged on a payment channel; `owed`: the work is done, and settlement is still running; `lost`: the work was done and never ' +
    'paid; `refused`: never paid, and nothing ran; `refunded`: paid, and then paid back by the seller',
})
export type Book = z.infer<typeof Book>
