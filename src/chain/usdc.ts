import type { SignedAuthorization } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import { addressWord, eventTopics } from './abi.ts'
import { unavailable } from './rpc.ts'

/*
 * The selectors and topics of USDC, encoded by hand, because every argument is one 32-byte word. An ABI library takes
 * 30 MB and 250 ms to load. The tests compare each with that library.
 */

const BALANCE_OF = '0x70a08231'
const AUTHORIZATION_STATE = '0xe94a0102'
const TRANSFER_TO = '0xa9059cbb'
const TRANSFER_WITH_AUTHORIZATION = '0xe3ee160e'

/** Where a transfer went, and its amount in atomic units. */
export type Transfer = { to: Hex; value: bigint }

/** A log from an RPC, checked and in lower case. */
export type Log = { address: Hex; topics: readonly Hex[]; data: Hex; transactionHash: Hex; logIndex: number }

export function encodeBalanceOf(owner: Hex): Hex {
  return `${BALANCE_OF}${addressWord(owner)}`
}

export function encodeAuthorizationState(authorizer: Hex, authorizationNonce: Hex): Hex {
  return `${AUTHORIZATION_STATE}${addressWord(authorizer)}${authorizationNonce.slice(2).toLowerCase()}`
}

export function encodeTransfer(to: Hex, value: bigint): Hex {
  return `${TRANSFER_TO}${addressWord(to)}${value.toString(16).padStart(64, '0')}`
}

/** Encodes `transferWithAuthorization` with the signature as v, r and s: every version of USDC has this form. */
export function encodeTransferWithAuthorization({ authorization, signature }: SignedAuthorization): Hex {
  const { from, to, value, validAfter, validBefore, nonce } = authorization
  const rs = signature.slice(2, 130).toLowerCase()
  const v = signature.slice(130).padStart(64, '0')
  const numbers = [value, validAfter, validBefore].map((number) => number.toString(16).padStart(64, '0')).join('')
  return `${TRANSFER_WITH_AUTHORIZATION}${addressWord(from as Hex)}${addressWord(to as Hex)}${numbers}${nonce.slice(2).toLowerCase()}${v}${rs}`
}

/** The topics of the two events that end an authorization. */
export function authorizationTopics(authorizer: Hex, authorizationNonce: Hex): [Hex[], Hex, Hex] {
  return [
    [eventTopics.authorizationUsed, eventTopics.authorizationCanceled],
    `0x${addressWord(authorizer)}`,
    authorizationNonce.toLowerCase() as Hex,
  ]
}

/** True if a log is one of these two events for this authorization. */
export function endsAuthorization(log: Log, asset: Hex, authorizer: Hex, authorizationNonce: Hex): boolean {
  const [events, from, nonce] = authorizationTopics(authorizer, authorizationNonce)
  return (
    log.address === asset.toLowerCase() &&
    events.includes(log.topics[0] as Hex) &&
    log.topics[1] === from &&
    log.topics[2] === nonce
  )
}

/**
 * The transfer that an authorization made: the payer's next Transfer after its AuthorizationUsed in the logs of one
 * transaction. The event alone does not say where the money went: the payer can spend the same nonce on another
 * transfer, to itself, before the seller settles.
 */
export function findTransfer(logs: readonly Log[], asset: Hex, from: Hex, authorizationNonce: Hex): Transfer | false {
  const used = logs.find(
    (log) => log.topics[0] === eventTopics.authorizationUsed && endsAuthorization(log, asset, from, authorizationNonce),
  )
  if (used === undefined) return false
  const payer = `0x${addressWord(from)}`
  const transfer = logs
    .filter(
      (log) => log.logIndex > used.logIndex && log.address === used.address && log.topics[0] === eventTopics.transfer,
    )
    .sort((left, right) => left.logIndex - right.logIndex)
    .find((log) => log.topics[1] === payer)
  const to = transfer?.topics[2]
  if (transfer === undefined || to === undefined) return false
  return { to: `0x${to.slice(26)}`, value: readWord(transfer.data) }
}

/**
 * True if exactly this amount went from one account to another, sent by the account itself. A transfer by an
 * authorization of that account does not count: it pays for something else.
 */
export function hasTransfer(logs: readonly Log[], asset: Hex, wanted: { from: Hex; to: Hex; value: bigint }): boolean {
  const [from, to] = [wanted.from, wanted.to].map((account) => `0x${addressWord(account)}`)
  if (logs.some(({ topics }) => topics[0] === eventTopics.authorizationUsed && topics[1] === from)) return false
  return logs.some(
    ({ address, topics, data }) =>
      address === asset.toLowerCase() &&
      topics[0] === eventTopics.transfer &&
      topics[1] === from &&
      topics[2] === to &&
      readWord(data) === wanted.value,
  )
}

/** Reads one uint256. @throws ChainError `CHAIN_UNAVAILABLE` for anything else: no contract there, or a broken RPC. */
export function readWord(result: unknown): bigint {
  if (typeof result !== 'string' || !/^0x[0-9a-fA-F]{64}$/.test(result)) {
    throw unavailable('the RPC does not answer as USDC would: is it an RPC of the configured network?')
  }
  return BigInt(result)
}
