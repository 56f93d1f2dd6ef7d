import * as z from 'zod'
import { KEY_HOURS } from './limits.ts'

const KEY_LENGTH_MAX = 255

/** Names one request, so that it runs once however often it is sent (D38). */
export const IdempotencyKey = z
  .string({ error: 'must be sent only once' })
  .regex(new RegExp(`^[\\x21-\\x7e]{1,${KEY_LENGTH_MAX}}$`), `must be 1 to ${KEY_LENGTH_MAX} visible ASCII characters`)
  .meta({
    description:
      `key of this request, for example a random UUID. A repeat with the same key and body within ${KEY_HOURS} hours returns the same order: the request ` +
      'waits for it, or answers from the ledger. A repeat with another body is refused with 409 `IDEMPOTENCY_CONFLICT`',
  })
