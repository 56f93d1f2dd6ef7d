import * as z from 'zod'

const KEY_LENGTH_MAX = 255

/** Names one request, so that it runs once however often it is sent (D38). */
export const IdempotencyKey = z
  .string({ error: 'is to be sent once' })
  .regex(new RegExp(`^[\\x21-\\x7e]{1,${KEY_LENGTH_MAX}}$`), `is not 1 to ${KEY_LENGTH_MAX} visible ASCII characters`)
  .meta({
    description:
      'names this request, such as by a random UUID: the same key and body within 24 hours give the same order, which is ' +
      'waited for or answered from the ledger; another body is refused with 409 `IDEMPOTENCY_CONFLICT`',
  })
