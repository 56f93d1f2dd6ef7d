import {
  type Bound,
  boundAt,
  compareKeys,
  END,
  HASH_BYTES,
  SHIFT_MAX,
  START,
  TIME_BYTES,
  TIME_MAX,
  timeOf,
} from './element-key.ts'
import { invalid } from './reconcile-error.ts'
import { FINGERPRINT_BYTES, SHORT_ID_BYTES, type ShortId } from './session-hash.ts'

/** What one side says about the elements from the end of the previous range, or the first position, to `until`. */
export type Range =
  /** Nothing in this message. */
  | { mode: 'pass'; until: Bound }
  /** Our elements are the same as yours. */
  | { mode: 'equal'; until: Bound }
  /** Are your elements the same as mine? */
  | { mode: 'fingerprint'; until: Bound; fingerprint: Uint8Array }
  /** These are all my elements. */
  | { mode: 'list'; until: Bound; ids: readonly ShortId[] }
  /** The set bits mark the elements of your list that I lack. `ids` are the elements that I have in addition. */
  | { mode: 'answer'; until: Bound; lacks: Uint8Array; ids: readonly ShortId[] }

/** Ranges in one message, `pass` not counted. */
export const RANGES_MAX = 2048
/** Ids in one list. An answer holds as many as fit into its message. @internal Exported for its test. */
export const LIST_IDS_MAX = 256
/** Bytes of a range's head and bound: 1 byte, 7 of time, 1 of length, 16 of hash. */
export const BOUND_BYTES_MAX = 25

const MODES = ['pass', 'equal', 'fingerprint', 'list', 'answer'] as const
const FORM_BITS = 5
const FORM_HASHED = 30
const FORM_END = 31
const VARINT_BYTES_MAX = 7
const VARINT_MAX = 2 ** 48 - 1

/**
 * Encodes ranges in ascending order.
 *
 * ```bnf
 * message     ::= range*
 * range       ::= head bound content
 * head        ::= u8                       mode × 32 + form; modes are 0 pass, 1 equal, 2 fingerprint, 3 list, 4 answer
 * bound       ::= time                     form 0..29: the time is a multiple of 2^form, and of no larger 2^n (n < 30)
 *               | time length(u8, 1..16) hash(length bytes, the last not 0)                                    form 30
 *               |                          form 31: the end
 * time        ::= varint                   minus the previous bound's time, both divided by 2^form (30: by 1), floored
 * content     ::=                          pass, equal
 *               | 8 bytes                  fingerprint
 *               | ids                      list
 *               | bitmap ids               answer
 * bitmap      ::= varint(length) byte*     least significant bit first; the last byte is not 0
 * ids         ::= varint(count) u48be*     ascending
 * varint      ::= LEB128, shortest, below 2^48
 * ```
 * There is only one way to encode a message. Bounds ascend strictly; others cannot be encoded.
 */
export function encodeRanges(ranges: readonly Range[]): Uint8Array {
  const bytes = new Uint8Array(sizeOfAll(ranges, START))
  const writer: MessageWriter = { bytes, at: 0 }
  let from = START
  for (const range of ranges) {
    encodeRange(writer, range, from)
    from = range.until
  }
  return bytes
}

/** Encoded size in bytes of ranges that follow a range ending at `from`. */
export function sizeOfAll(ranges: readonly Range[], from: Bound): number {
  return ranges.reduce((size, range, index) => size + sizeOf(range, ranges[index - 1]?.until ?? from), 0)
}

/** @throws ReconcileError `RECONCILE_INVALID` */
export function decodeRanges(bytes: Uint8Array): Range[] {
  const reader: MessageReader = { bytes, at: 0 }
  const ranges: Range[] = []
  let from = START
  let saying = 0
  while (reader.at < bytes.length) {
    if (compareKeys(from, END) === 0) throw invalid('a range after the end')
    const range = decodeRange(reader, from)
    if (range.mode === 'pass') {
      if (ranges.at(-1)?.mode === 'pass') throw invalid('two ranges that say nothing')
    } else if (++saying > RANGES_MAX) throw invalid(`more than ${RANGES_MAX} ranges`)
    ranges.push(range)
    from = range.until
  }
  if (ranges.at(-1)?.mode === 'pass') throw invalid('the last range says nothing')
  return ranges
}

function encodeRange(writer: MessageWriter, range: Range, from: Bound): void {
  encodeBound(writer, MODES.indexOf(range.mode) << FORM_BITS, from, range.until)
  if (range.mode === 'fingerprint') put(writer, range.fingerprint)
  if (range.mode === 'answer') {
    encodeVarint(writer, range.lacks.length)
    put(writer, range.lacks)
  }
  if (range.mode === 'list' || range.mode === 'answer') {
    encodeVarint(writer, range.ids.length)
    for (const id of range.ids) {
      for (let place = SHORT_ID_BYTES - 1; place >= 0; place--) putByte(writer, Math.floor(id / 256 ** place) % 256)
    }
  }
}

function sizeOf(range: Range, from: Bound): number {
  const { form, units, length } = formOf(from, range.until)
  const bound = 1 + (form === FORM_END ? 0 : varintSize(units)) + (form === FORM_HASHED ? 1 + length : 0)
  switch (range.mode) {
    case 'pass':
    case 'equal':
      return bound
    case 'fingerprint':
      return bound + FINGERPRINT_BYTES
    case 'list':
      return bound + idsSize(range.ids)
    case 'answer':
      return bound + varintSize(range.lacks.length) + range.lacks.length + idsSize(range.ids)
  }
}

function idsSize({ length }: readonly ShortId[]): number {
  return varintSize(length) + length * SHORT_ID_BYTES
}

function decodeRange(reader: MessageReader, from: Bound): Range {
  const head = takeByte(reader)
  const mode = MODES[head >> FORM_BITS]
  const until = decodeBound(reader, head % (1 << FORM_BITS), from)
  switch (mode) {
    case 'pass':
    case 'equal':
      return { mode, until }
    case 'fingerprint':
      return { mode, until, fingerprint: take(reader, FINGERPRINT_BYTES) }
    case 'list':
      return { mode, until, ids: decodeIds(reader, LIST_IDS_MAX) }
    case 'answer': {
      const length = decodeVarint(reader)
      if (length > LIST_IDS_MAX / 8) throw invalid('a bitmap longer than any list')
      const lacks = take(reader, length)
      if (lacks.at(-1) === 0) throw invalid('a bitmap that is not the shortest')
      return { mode, until, lacks, ids: decodeIds(reader, reader.bytes.length) }
    }
    default:
      throw invalid('an unknown mode')
  }
}

/** How a bound is encoded: its form, the number after the form, and the length of its hash. */
function formOf(from: Bound, until: Bound): { form: number; units: number; length: number } {
  if (compareKeys(until, END) === 0) return { form: FORM_END, units: 0, length: 0 }
  const time = timeOf(until)
  let length = HASH_BYTES
  while (length > 0 && until[TIME_BYTES + length - 1] === 0) length--
  if (length > 0) return { form: FORM_HASHED, units: time - timeOf(from), length }
  let form = 0
  while (form < SHIFT_MAX && time % 2 ** (form + 1) === 0) form++
  return { form, units: time / 2 ** form - Math.floor(timeOf(from) / 2 ** form), length }
}

function encodeBound(writer: MessageWriter, head: number, from: Bound, until: Bound): void {
  const { form, units, length } = formOf(from, until)
  putByte(writer, head | form)
  if (form === FORM_END) return
  encodeVarint(writer, units)
  if (form !== FORM_HASHED) return
  putByte(writer, length)
  put(writer, until.subarray(TIME_BYTES, TIME_BYTES + length))
}

function decodeBound(reader: MessageReader, form: number, from: Bound): Bound {
  if (form === FORM_END) return END
  const unit = form === FORM_HASHED ? 1 : 2 ** form
  const units = Math.floor(timeOf(from) / unit) + decodeVarint(reader)
  if (units * unit > TIME_MAX) throw invalid('a bound after all times')
  if (form < SHIFT_MAX && units % 2 === 0) throw invalid('a bound that is not in its shortest form')
  const until = boundAt(units * unit)
  if (form === FORM_HASHED) {
    const length = takeByte(reader)
    if (length === 0 || length > HASH_BYTES) throw invalid('a bound of no or too long a hash')
    const hash = take(reader, length)
    if (hash.at(-1) === 0) throw invalid('a bound that is not in its shortest form')
    until.set(hash, TIME_BYTES)
  }
  if (compareKeys(until, from) <= 0) throw invalid('bounds that do not ascend')
  return until
}

function decodeIds(reader: MessageReader, idsMax: number): ShortId[] {
  const count = decodeVarint(reader)
  if (count > idsMax) throw invalid(`more than ${idsMax} ids in a list`)
  const packed = take(reader, count * SHORT_ID_BYTES)
  const view = new DataView(packed.buffer, packed.byteOffset, packed.length)
  const ids: ShortId[] = []
  for (let at = 0; at < packed.length; at += SHORT_ID_BYTES) {
    const id = view.getUint16(at) * 2 ** 32 + view.getUint32(at + 2)
    if (at > 0 && id < ids.at(-1)!) throw invalid('ids that do not ascend')
    ids.push(id)
  }
  return ids
}

type MessageWriter = { readonly bytes: Uint8Array; at: number }

function encodeVarint(writer: MessageWriter, value: number): void {
  let rest = value
  for (; rest >= 128; rest = Math.floor(rest / 128)) putByte(writer, 128 + (rest % 128))
  putByte(writer, rest)
}

function varintSize(value: number): number {
  let size = 1
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) size++
  return size
}

function putByte(writer: MessageWriter, byte: number): void {
  writer.bytes[writer.at++] = byte
}

function put(writer: MessageWriter, bytes: Uint8Array): void {
  writer.bytes.set(bytes, writer.at)
  writer.at += bytes.length
}

type MessageReader = { readonly bytes: Uint8Array; at: number }

function decodeVarint(reader: MessageReader): number {
  let value = 0
  for (let place = 0; place < VARINT_BYTES_MAX; place++) {
    const byte = takeByte(reader)
    value += (byte % 128) * 128 ** place
    if (byte >= 128) continue
    if (byte === 0 && place > 0) throw invalid('a number that is not in its shortest form')
    if (value > VARINT_MAX) break
    return value
  }
  throw invalid('a number over 48 bits')
}

function takeByte(reader: MessageReader): number {
  const byte = reader.bytes[reader.at++]
  if (byte === undefined) throw invalid('the message is cut')
  return byte
}

function take(reader: MessageReader, length: number): Uint8Array {
  const end = reader.at + length
  if (end > reader.bytes.length) throw invalid('the message is cut')
  const bytes = reader.bytes.subarray(reader.at, end)
  reader.at = end
  return bytes
}
