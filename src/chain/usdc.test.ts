import { encodeFunctionData, parseAbi, toEventSelector } from 'viem'
import { describe, expect, it } from 'vitest'
import type { Hex } from '../schema/primitives.ts'
import { eventTopics } from './abi.ts'
import {
  authorizationTopics,
  encodeAuthorizationState,
  encodeBalanceOf,
  encodeTransferWithAuthorization,
  endsAuthorization,
  findTransfer,
  hasTransfer,
  type Log,
  readWord,
} from './usdc.ts'

const USDC = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
const PAYER = '0x08c86B491A37C2FFC25072a17c7A97EF2D0357dd'
const SELLER = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
const NONCE: Hex = `0x${'4B'.repeat(32)}`
const TRANSFER = toEventSelector('Transfer(address,address,uint256)')

const word = (address: string) => `0x${address.slice(2).toLowerCase().padStart(64, '0')}` as Hex
const used = (logIndex: number, nonce: Hex = NONCE): Log => ({
  address: USDC.toLowerCase() as Hex,
  topics: [eventTopics.authorizationUsed, word(PAYER), nonce.toLowerCase() as Hex],
  data: '0x',
  transactionHash: NONCE,
  logIndex,
})
const transfer = (logIndex: number, value: bigint, from: string = PAYER, to: string = SELLER): Log => ({
  address: USDC.toLowerCase() as Hex,
  topics: [TRANSFER, word(from), word(to)],
  data: `0x${value.toString(16).padStart(64, '0')}`,
  transactionHash: NONCE,
  logIndex,
})

describe('calls and topics', () => {
  it("are an ABI library's, byte for byte", () => {
    const abi = parseAbi([
      'function balanceOf(address) view returns (uint256)',
      'function authorizationState(address, bytes32) view returns (bool)',
      'function transferWithAuthorization(address, address, uint256, uint256, uint256, bytes32, uint8, bytes32, bytes32)',
    ])
    const [r, s]: Hex[] = [`0x${'a1'.repeat(32)}`, `0x${'0b'.repeat(32)}`]
    const times = { validAfter: 1_767_225_540n, validBefore: 1_767_225_840n }
    const authorization = { from: PAYER, to: SELLER, value: 10_000n, ...times, nonce: NONCE } as const
    const args = [PAYER, SELLER, 10_000n, times.validAfter, times.validBefore, NONCE, 28, r!, s!] as const
    expect(encodeTransferWithAuthorization({ authorization, signature: `${r}${s!.slice(2)}1c` as Hex })).toBe(
      encodeFunctionData({ abi, functionName: 'transferWithAuthorization', args }).toLowerCase(),
    )
    expect(encodeBalanceOf(PAYER)).toBe(encodeFunctionData({ abi, functionName: 'balanceOf', args: [PAYER] }))
    expect(encodeAuthorizationState(PAYER, NONCE)).toBe(
      encodeFunctionData({ abi, functionName: 'authorizationState', args: [PAYER, NONCE] }).toLowerCase(),
    )
    expect(eventTopics.authorizationUsed).toBe(toEventSelector('AuthorizationUsed(address,bytes32)'))
    expect(eventTopics.authorizationCanceled).toBe(toEventSelector('AuthorizationCanceled(address,bytes32)'))
    expect(authorizationTopics(PAYER, NONCE)).toEqual([
      [eventTopics.authorizationUsed, eventTopics.authorizationCanceled],
      word(PAYER),
      NONCE.toLowerCase(),
    ])
  })
})

describe('readWord', () => {
  it('reads a full word and nothing else', () => {
    expect(readWord(`0x${'0'.repeat(62)}2a`)).toBe(42n)
    for (const result of ['0x', '0x2a', null, undefined, 42, {}, `0x${'g'.repeat(64)}`, `0x${'0'.repeat(128)}`]) {
      expect(() => readWord(result)).toThrow('configured network')
    }
  })
})

describe('findTransfer', () => {
  it('takes the transfer that follows the event', () => {
    expect(findTransfer([used(3), transfer(4, 10n)], USDC, PAYER, NONCE)).toEqual({
      to: SELLER.toLowerCase(),
      value: 10n,
    })
  })

  it('pairs each authorization of a batch with its own transfer, whatever the order of the logs', () => {
    const other: Hex = `0x${'11'.repeat(32)}`
    const logs = [transfer(6, 30n), used(5), transfer(4, 99n, PAYER, PAYER), used(3, other), transfer(1, 7n)]
    expect(findTransfer(logs, USDC, PAYER, NONCE)).toMatchObject({ value: 30n })
    expect(findTransfer(logs, USDC, PAYER, other)).toMatchObject({ value: 99n, to: PAYER.toLowerCase() })
  })

  it("does not take another token's, another payer's or an earlier transfer, nor another token's event", () => {
    const foreign = (log: Log): Log => ({ ...log, address: '0x0000000000000000000000000000000000000001' })
    expect(findTransfer([used(3), foreign(transfer(4, 10n))], USDC, PAYER, NONCE)).toBe(false)
    expect(findTransfer([used(3), transfer(4, 10n, SELLER, PAYER)], USDC, PAYER, NONCE)).toBe(false)
    expect(findTransfer([transfer(2, 10n), used(3)], USDC, PAYER, NONCE)).toBe(false)
    expect(findTransfer([foreign(used(3)), transfer(4, 10n)], USDC, PAYER, NONCE)).toBe(false)
    expect(findTransfer([transfer(4, 10n)], USDC, PAYER, NONCE)).toBe(false)
    expect(findTransfer([], USDC, PAYER, NONCE)).toBe(false)
  })

  it('does not take a cancellation for a payment', () => {
    const canceled: Log = {
      ...used(3),
      topics: [eventTopics.authorizationCanceled, word(PAYER), NONCE.toLowerCase() as Hex],
    }
    expect(endsAuthorization(canceled, USDC, PAYER, NONCE)).toBe(true)
    expect(findTransfer([canceled, transfer(4, 10n)], USDC, PAYER, NONCE)).toBe(false)
  })
})

describe('a refund', () => {
  const wanted = { from: PAYER, to: SELLER, value: 10_000n } as const

  it('is a transfer of the account itself', () => {
    expect(hasTransfer([transfer(0, 10_000n)], USDC, wanted)).toBe(true)
    expect(hasTransfer([transfer(0, 9_999n)], USDC, wanted)).toBe(false)
  })

  it('T26 is none that pays for something else: by an authorization of that account', () => {
    expect(hasTransfer([used(0), transfer(1, 10_000n)], USDC, wanted)).toBe(false)
  })
})
