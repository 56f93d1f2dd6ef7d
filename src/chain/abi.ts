import type { Hex } from '../schema/primitives.ts'
import { unavailable } from './rpc.ts'

/* The part of the ABI that ERC-8004 and payment channels need, by hand as in usdc.ts. The tests compare it with an ABI library. */

/** An argument of a call. Integers may be negative. `tuple` is a Solidity struct, `list` an array of any length. */
export type Argument =
  | bigint
  | { word: Hex }
  | { address: Hex }
  | { text: string }
  | { bytes: Hex }
  | { addresses: readonly Hex[] }
  | { tuple: readonly Argument[] }
  | { list: readonly Argument[] }

/** First topics of the events that are read: the hashes of their signatures. */
export const eventTopics = {
  authorizationUsed: '0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5',
  authorizationCanceled: '0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81',
  transfer: '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef',
  /** Of the contract of payment channels. */
  channelCreated: '0x69d8248d5566bdb2ebc4d218970710d8378a2ff9b709a999e052b71970f808fa',
  deposited: '0x6c2a09353b5e75e70d0b9778b80a413809bb235d46c211811c474b3346791d89',
  refunded: '0xa84286cf8ebc7903a663c77c8d99aa92b600d4c2fcca872a5d4a663db4eb394b',
  withdrawFinalized: '0x546ce1e2242cd930c196bd08b894443562d709b4fffe4f028a75a6d233efc6e3',
  registered: '0xca52e62c367d81bb2e328eb795f7c7ba24afb478408a26c0e201d155c449bc4a',
} as const satisfies Record<string, Hex>

const WORD_DIGITS = 64
const TWO_256 = 1n << 256n
const NO_TEXT = 'the RPC answered something that is not text'
const NO_WORD_LISTS = 'the RPC answered something that is not the list of results asked for'

/** Encodes a call: the selector, then the arguments. */
export function encodeCall(selector: Hex, args: readonly Argument[]): Hex {
  return `${selector}${encodeTuple(args)}` as Hex
}

/** Encodes values without a selector, as `abi.encode` of Solidity does. */
export function encodeValues(values: readonly Argument[]): Hex {
  return `0x${encodeTuple(values)}`
}

/** A head with each value, or for a value of variable length its offset, then the tails with those values. */
function encodeTuple(values: readonly Argument[]): string {
  const parts = values.map((value) => ({ isDynamic: isDynamic(value), digits: encodeValue(value) }))
  const headDigits = parts.reduce((sum, part) => sum + (part.isDynamic ? WORD_DIGITS : part.digits.length), 0)
  let [head, tail] = ['', '']
  for (const part of parts) {
    if (part.isDynamic) {
      head += uintWord(BigInt((headDigits + tail.length) / 2))
      tail += part.digits
    } else head += part.digits
  }
  return head + tail
}

/** True if the length of a value depends on more than its type. */
function isDynamic(value: Argument): boolean {
  if (typeof value === 'bigint' || 'word' in value || 'address' in value) return false
  return 'tuple' in value ? value.tuple.some(isDynamic) : true
}

function encodeValue(value: Argument): string {
  if (typeof value === 'bigint') return uintWord(value)
  if ('word' in value) return value.word.slice(2).toLowerCase()
  if ('address' in value) return addressWord(value.address)
  if ('tuple' in value) return encodeTuple(value.tuple)
  if ('text' in value) return encodeBytes(Buffer.from(value.text, 'utf8').toString('hex'))
  if ('bytes' in value) return encodeBytes(value.bytes.slice(2).toLowerCase())
  const items = 'list' in value ? value.list : value.addresses.map((address) => ({ address }))
  return uintWord(BigInt(items.length)) + encodeTuple(items)
}

function encodeBytes(digits: string): string {
  return uintWord(BigInt(digits.length / 2)) + digits.padEnd(Math.ceil(digits.length / WORD_DIGITS) * WORD_DIGITS, '0')
}

export function addressWord(address: Hex): string {
  return address.slice(2).toLowerCase().padStart(WORD_DIGITS, '0')
}

/** Negative values become two's complement. */
function uintWord(value: bigint): string {
  return ((value + TWO_256) % TWO_256).toString(16).padStart(WORD_DIGITS, '0')
}

/** The words of an answer. @throws ChainError `CHAIN_UNAVAILABLE` if it does not consist of at least `count` words */
export function readWords(result: unknown, count: number): bigint[] {
  const digits = typeof result === 'string' && /^0x([0-9a-fA-F]{64})*$/.test(result) ? result.slice(2) : ''
  const words = digits.match(/.{64}/g) ?? []
  if (words.length < count) throw unavailable('the RPC does not answer as this contract would: is it on this network?')
  return words.map((word) => BigInt(`0x${word}`))
}

export function readAddress(word: bigint): Hex {
  if (word >> 160n !== 0n) throw unavailable('the RPC answered something that is not an address')
  return `0x${word.toString(16).padStart(40, '0')}`
}

/** The first `max` addresses of a list. @throws ChainError if the list is incomplete */
export function readAddresses(result: unknown, max: number): Hex[] {
  const [offset, ...words] = readWords(result, 2)
  const [length, ...items] = words
  if (offset !== 32n || length === undefined || length > BigInt(items.length)) {
    throw unavailable('the RPC answered something that is not a list of addresses')
  }
  return items.slice(0, Math.min(Number(length), max)).map(readAddress)
}

/**
 * The items of an answer that is a list of bytes (`bytes[]`), each as its words.
 * @throws ChainError if there are not exactly `count` items, or one is incomplete or not made of words
 */
export function readWordLists(result: unknown, count: number): bigint[][] {
  const [offset, length, ...words] = readWords(result, 2)
  if (offset !== 32n || length !== BigInt(count)) throw unavailable(NO_WORD_LISTS)
  return words.slice(0, count).map((start) => {
    const at = Number(start / 32n)
    const bytes = words[at]
    const end = at + 1 + Number((bytes ?? 0n) / 32n)
    if (bytes === undefined || start % 32n !== 0n || bytes % 32n !== 0n || end > words.length) {
      throw unavailable(NO_WORD_LISTS)
    }
    return words.slice(at + 1, end)
  })
}

/** The only text of an answer. @throws ChainError if the text is incomplete or not UTF-8 */
export function readText(result: unknown): string {
  const [offset, length, ...words] = readWords(result, 2)
  if (offset !== 32n || length === undefined || length > BigInt(words.length * 32)) throw unavailable(NO_TEXT)
  const digits = words.map((word) => word.toString(16).padStart(WORD_DIGITS, '0')).join('')
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(
      Buffer.from(digits.slice(0, Number(length) * 2), 'hex'),
    )
  } catch {
    throw unavailable(NO_TEXT)
  }
}

export function readInt(word: bigint): bigint {
  return BigInt.asIntN(256, word)
}
