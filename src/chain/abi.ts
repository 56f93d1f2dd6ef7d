import type { Hex } from '../schema/primitives.ts'
import { unavailable } from './rpc.ts'

/* The part of the ABI that ERC-8004 needs, by hand as in usdc.ts. The tests compare it with an ABI library. */

/** An argument of a call: one word, a text, or a list of addresses. Integers may be negative. */
export type Argument = bigint | { word: Hex } | { address: Hex } | { text: string } | { addresses: readonly Hex[] }

/** First topics of the events that are read: the hashes of their signatures. */
export const eventTopics = {
  authorizationUsed: '0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5',
  authorizationCanceled: '0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81',
  transfer: '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef',
  registered: '0xca52e62c367d81bb2e328eb795f7c7ba24afb478408a26c0e201d155c449bc4a',
} as const satisfies Record<string, Hex>

const WORD_DIGITS = 64
const TWO_256 = 1n << 256n
const NO_TEXT = 'the RPC answered something that is not text'

/** Encodes the selector, then a head of one word per argument, then the tails of arguments with variable length. */
export function encodeCall(selector: Hex, args: readonly Argument[]): Hex {
  const head: string[] = []
  const tail: string[] = []
  let offset = args.length * 32
  for (const argument of args) {
    const dynamic = dynamicPart(argument)
    if (dynamic === undefined) {
      head.push(wordOf(argument as bigint | { word: Hex } | { address: Hex }))
      continue
    }
    head.push(uintWord(BigInt(offset)))
    tail.push(dynamic)
    offset += dynamic.length / 2
  }
  return `${selector}${head.join('')}${tail.join('')}` as Hex
}

function dynamicPart(argument: Argument): string | undefined {
  if (typeof argument === 'bigint') return undefined
  if ('text' in argument) {
    const bytes = Buffer.from(argument.text, 'utf8')
    const digits = bytes.toString('hex')
    return uintWord(BigInt(bytes.length)) + digits.padEnd(Math.ceil(digits.length / WORD_DIGITS) * WORD_DIGITS, '0')
  }
  if ('addresses' in argument) {
    return uintWord(BigInt(argument.addresses.length)) + argument.addresses.map(addressWord).join('')
  }
  return undefined
}

function wordOf(argument: bigint | { word: Hex } | { address: Hex }): string {
  if (typeof argument === 'bigint') return uintWord(argument)
  return 'word' in argument ? argument.word.slice(2).toLowerCase() : addressWord(argument.address)
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
