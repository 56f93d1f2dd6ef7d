import type { Hex } from '../schema/primitives.ts'

/** A row whose columns are named like the fields of `T`: NULL is undefined, a number is a bigint, bytes are a hex text. */
export type RowOf<T> = { [Name in keyof T]: Column<T[Name]> }
type Column<Value> = Value extends bigint
  ? number
  : Value extends Hex
    ? Uint8Array
    : Value extends undefined
      ? null
      : Value
