import type { Hex } from '../schema/primitives.ts'
import { signDigest } from './authorization.ts'
import { keccak256 } from './keccak.ts'

/** An EIP-1559 transaction: a contract call or a transfer of ether. */
export type Transaction = {
  chainId: number
  accountNonce: number
  maxPriorityFeePerGas: bigint
  maxFeePerGas: bigint
  gas: bigint
  to: Hex
  /** In wei. */
  value: bigint
  data: Hex
}
/** The bytes to send and their hash. Both stay the same however often the transaction is sent. */
export type SignedTransaction = { raw: Hex; hash: Hex }

const TYPE = 0x02

/** Signs a transaction (EIP-1559, EIP-2718). The tests compare the result with a library. */
export function signTransaction(transaction: Transaction, key: Uint8Array): SignedTransaction {
  const { chainId, accountNonce, maxPriorityFeePerGas, maxFeePerGas, gas, to, value, data } = transaction
  const fields: Item[] = [
    integer(BigInt(chainId)),
    integer(BigInt(accountNonce)),
    integer(maxPriorityFeePerGas),
    integer(maxFeePerGas),
    integer(gas),
    bytesOf(to),
    integer(value),
    bytesOf(data),
    [],
  ]
  const signature = Buffer.from(signDigest(keccak256(typed(fields)), key).slice(2), 'hex')
  const [r, s, v] = [signature.subarray(0, 32), signature.subarray(32, 64), signature[64]!]
  const raw = typed([...fields, integer(BigInt(v - 27)), integer(toInteger(r)), integer(toInteger(s))])
  return { raw: `0x${raw.toString('hex')}`, hash: `0x${Buffer.from(keccak256(raw)).toString('hex')}` }
}

/** Reads the fees from a transaction signed here. */
export function readFees(raw: Hex): Pick<Transaction, 'maxPriorityFeePerGas' | 'maxFeePerGas'> {
  const bytes = bytesOf(raw)
  // Skip type and list prefix. Chain id, account nonce and the two fees follow, each shorter than 56 bytes.
  let at = 1 + lengthOfPrefix(bytes[1]!)
  const next = () => {
    const first = bytes[at]!
    const start = first < 0x80 ? at : at + 1
    at = first < 0x80 ? at + 1 : start + first - 0x80
    const digits = bytes.subarray(start, at).toString('hex')
    return digits === '' ? 0n : BigInt(`0x${digits}`)
  }
  next()
  next()
  return { maxPriorityFeePerGas: next(), maxFeePerGas: next() }
}

/** The lowest fee for a replacement: nodes require 10 % more, this adds 12.5 %. */
export function bumped(fee: bigint | undefined): bigint {
  return fee === undefined ? 0n : (fee * 9n) / 8n + 1n
}

function lengthOfPrefix(first: number): number {
  return first <= 0xf7 ? 1 : 1 + first - 0xf7
}

type Item = Uint8Array | readonly Item[]

function typed(fields: readonly Item[]): Buffer {
  return Buffer.concat([Buffer.of(TYPE), rlp(fields)])
}

/** Recursive length prefix (RLP), the encoding of Ethereum. */
function rlp(item: Item): Buffer {
  if (item instanceof Uint8Array) {
    if (item.length === 1 && item[0]! < 0x80) return Buffer.from(item)
    return Buffer.concat([prefix(0x80, item.length), item])
  }
  const body = Buffer.concat(item.map(rlp))
  return Buffer.concat([prefix(0xc0, body.length), body])
}

function prefix(base: number, length: number): Buffer {
  if (length <= 55) return Buffer.of(base + length)
  const bytes = integer(BigInt(length))
  return Buffer.concat([Buffer.of(base + 55 + bytes.length), bytes])
}

/** Big-endian without leading zeros; zero is empty. */
function integer(value: bigint): Buffer {
  if (value === 0n) return Buffer.alloc(0)
  const digits = value.toString(16)
  return Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, 'hex')
}

function toInteger(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes).toString('hex')}`)
}

function bytesOf(hex: Hex): Buffer {
  return Buffer.from(hex.slice(2), 'hex')
}
