import { UsageError } from '../exit-code.ts'

const FULL = /^0x[0-9a-fA-F]{64}$/
const BEGINNING = /^0x[0-9a-fA-F]{6,63}(…|\.\.\.)?$/

/** Where payments are looked up: the newest ones, which are those that lists show. */
type Recent = () => Promise<{ items: readonly { payment_id: string }[] }>

/**
 * A payment's id, of which lists show the beginning only where a line has no room for 66 characters.
 *
 * @throws UsageError none of the newest begins so, or several do
 */
export async function fullPaymentId(given: string, recent: Recent): Promise<string> {
  if (FULL.test(given)) return given
  if (!isPaymentId(given))
    throw new UsageError('a payment id is 0x and 64 hex digits, or the first six or more of them')
  const beginning = given.replace(/(…|\.\.\.)$/, '').toLowerCase()
  const { items } = await recent()
  const [id, another] = [...new Set(items.map(({ payment_id }) => payment_id).filter((id) => id.startsWith(beginning)))]
  if (id !== undefined && another === undefined) return id
  const why = id === undefined ? 'none of the newest payments begins' : 'several payments begin'
  throw new UsageError(`${why} with ${beginning}: --json lists them in full`)
}

/** Whether an argument that may also be a file is meant as a payment. */
export function isPaymentId(given: string): boolean {
  return FULL.test(given) || BEGINNING.test(given)
}
