import { UsageError } from '../exit-code.ts'
import { theOne } from '../node-access/references.ts'

const FULL = /^0x[0-9a-fA-F]{64}$/
const BEGINNING = /^0x[0-9a-fA-F]{6,63}(…|\.\.\.)?$/

/** Returns the newest payments, which are the ones that lists show. */
type Recent = () => Promise<{ items: readonly { payment_id: string }[] }>

/**
 * Expands the start of a payment id. Lists show only the start if a line has no room for 66 characters.
 *
 * @throws CliError if none of the newest payments matches, UsageError if several do
 */
export async function fullPaymentId(given: string, recent: Recent): Promise<string> {
  if (FULL.test(given)) return given
  if (!isPaymentId(given)) throw notPaymentId()
  const beginning = given.replace(/(…|\.\.\.)$/, '').toLowerCase()
  const { items } = await recent()
  const ids = items.map(({ payment_id }) => payment_id).filter((id) => id.startsWith(beginning))
  return theOne(beginning, ids, 'payment')
}

export function notPaymentId(): UsageError {
  return new UsageError('a payment id is 0x and 64 hex digits; the first six or more digits are enough')
}

export function isPaymentId(given: string): boolean {
  return FULL.test(given) || BEGINNING.test(given)
}
