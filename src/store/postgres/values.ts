import type { Value } from '../query.ts'
import { StoreError } from '../store-error.ts'

/** A value on its way to PostgreSQL: bytes, or its text. */
export type Encoded = Buffer | string | null

/** Numbers of types, as PostgreSQL has them in its catalog. 0: it finds out by itself. */
const UNKNOWN = 0
const BOOL = 16
const BYTEA = 17
const INT8 = 20
const INT2 = 21
const INT4 = 23
const OID = 26
const FLOAT4 = 700
const FLOAT8 = 701
const NUMERIC = 1700

/**
 * A text of PostgreSQL holds no NUL. So NUL is written as these two characters, and the first of them, should a text
 * hold it, as itself and a 1.
 */
const ESCAPE = '\u001a'
const ESCAPED_NUL = `${ESCAPE}0`
const ESCAPED_ESCAPE = `${ESCAPE}1`

export function encodeValue(value: Value): Encoded {
  if (value === null) return null
  if (typeof value === 'string') return encodeText(value)
  if (typeof value === 'object') return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  return value.toString()
}

/** Whole numbers are named as such. Else `? - 60000` would have 32 bits. */
export function typeOf(value: Value): number {
  if (typeof value === 'bigint' || Number.isInteger(value)) return INT8
  return value instanceof Uint8Array ? BYTEA : UNKNOWN
}

function encodeText(text: string): string {
  if (!text.includes('\0') && !text.includes(ESCAPE)) return text
  return text.replaceAll(ESCAPE, ESCAPED_ESCAPE).replaceAll('\0', ESCAPED_NUL)
}

function decodeText(text: string): string {
  if (!text.includes(ESCAPE)) return text
  return text.replaceAll(ESCAPED_NUL, '\0').replaceAll(ESCAPED_ESCAPE, ESCAPE)
}

/** How a column is read, as SQLite gives it: numbers, texts, and bytes. */
export function decoderOf(type: number): (text: string) => Value {
  switch (type) {
    case INT8:
    case INT4:
    case INT2:
    case OID:
    case NUMERIC:
      return decodeNumber
    case FLOAT4:
    case FLOAT8:
      return Number
    case BOOL:
      return (text) => (text === 't' ? 1 : 0)
    case BYTEA:
      return decodeBytes
    default:
      return decodeText
  }
}

/** @throws StoreError if the number is larger than a number of JavaScript can be: silently it would be another one. */
function decodeNumber(text: string): number {
  const number = Number(text)
  if (Math.abs(number) > Number.MAX_SAFE_INTEGER) {
    throw new StoreError('STORE_UNREADABLE', `the ledger has a number that is too large to be read exactly: ${text}`)
  }
  return number
}

function decodeBytes(text: string): Uint8Array {
  if (!text.startsWith('\\x')) {
    const fix = "it has bytea_output = 'escape'; run: ALTER DATABASE … SET bytea_output = 'hex'"
    throw new StoreError('STORE_UNREADABLE', `the database writes bytes in a form that stoa does not read: ${fix}`)
  }
  return new Uint8Array(Buffer.from(text.slice(2), 'hex'))
}
