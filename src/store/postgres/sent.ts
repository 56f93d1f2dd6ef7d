import type { Statement } from '../query.ts'
import { translate } from './translate.ts'
import { type Encoded, encodeValue, typeOf } from './values.ts'

/** A statement on its way. */
export type Sent = {
  readonly text: string
  readonly values: readonly Encoded[]
  readonly types: readonly number[]
  readonly wants: 'rows' | 'changes'
}

/** A statement of a query, as it is sent. */
export function sentOf({ sql, values, wants }: Statement): Sent {
  return { text: translate(sql).text, values: values.map(encodeValue), types: values.map(typeOf), wants }
}

/** A statement of PostgreSQL without values, for the transaction itself. */
function plainly(text: string): Sent {
  return { text, values: [], types: [], wants: 'changes' }
}

export const BEGIN = plainly('BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE')
export const BEGIN_READING = plainly('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
export const COMMIT = plainly('COMMIT')
export const ROLLBACK = plainly('ROLLBACK')

/** Takes a row of `locks` until the end of the transaction. What is read after it is what others have committed. */
export function locking(name: string): Sent[] {
  const values = [name]
  return [
    { text: 'INSERT INTO locks (name) VALUES ($1) ON CONFLICT DO NOTHING', values, types: [0], wants: 'changes' },
    { text: 'SELECT name FROM locks WHERE name = $1 FOR UPDATE', values, types: [0], wants: 'changes' },
  ]
}
