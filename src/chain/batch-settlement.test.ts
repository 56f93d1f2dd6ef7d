import fc from 'fast-check'
import { type Abi, encodeAbiParameters, encodeFunctionData, type Hex, numberToHex, parseAbiParameters } from 'viem'
import { expect, test } from 'vitest'
import { readArtifact } from '../../devnet/contracts.ts'
import { channelVectors, vectorConfig } from '../../test/support/channel-vectors.ts'
import {
  batchSettlementAddress,
  channelCalls,
  createChannelReader,
  erc3009CollectorAddress,
} from './batch-settlement.ts'

const abi = readArtifact().contracts.BatchSettlement.abi as Abi
const theirs = (functionName: string, args: readonly unknown[]) => encodeFunctionData({ abi, functionName, args })
const config = vectorConfig('A', 84532)

const bytes = (minLength: number, maxLength = minLength) =>
  fc.uint8Array({ minLength, maxLength }).map((raw) => `0x${Buffer.from(raw).toString('hex')}` as Hex)
const uint128 = fc.bigInt({ min: 0n, max: 2n ** 128n - 1n })
const configs = fc.record({
  payer: bytes(20),
  payerAuthorizer: bytes(20),
  receiver: bytes(20),
  receiverAuthorizer: bytes(20),
  token: bytes(20),
  withdrawDelay: fc.integer({ min: 900, max: 2_592_000 }),
  salt: bytes(32),
})
// The signature of a contract may be of any length, even none.
const claims = fc.array(
  fc.record({ config: configs, maxClaimableAmount: uint128, signature: bytes(0, 100), totalClaimed: uint128 }),
  { maxLength: 4 },
)

test('claims of any rows are encoded as an ABI library does', () => {
  fc.assert(
    fc.property(claims, bytes(0, 100), (rows, signature) => {
      const list = rows.map(({ config, maxClaimableAmount, signature, totalClaimed }) => ({
        voucher: { channel: config, maxClaimableAmount },
        ...{ signature, totalClaimed },
      }))
      expect(channelCalls.claim(rows)).toBe(theirs('claim', [list]))
      expect(channelCalls.claimWithSignature(rows, signature)).toBe(theirs('claimWithSignature', [list, signature]))
    }),
    { numRuns: 200 },
  )
})

test('every other call is encoded as an ABI library does', () => {
  const uint256 = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n })
  fc.assert(
    fc.property(configs, uint128, uint256, bytes(0, 100), (terms, amount, nonce, signature) => {
      const { receiver, token } = terms
      const calls = {
        initiateWithdraw: [channelCalls.initiateWithdraw(terms, amount), [terms, amount]],
        finalizeWithdraw: [channelCalls.finalizeWithdraw(terms), [terms]],
        refund: [channelCalls.refund(terms, amount), [terms, amount]],
        refundWithSignature: [
          channelCalls.refundWithSignature(terms, { amount, nonce, signature }),
          [terms, amount, nonce, signature],
        ],
        settle: [channelCalls.settle(receiver, token), [receiver, token]],
      } as const
      for (const [name, [ours, args]] of Object.entries(calls)) expect(ours).toBe(theirs(name, args))
      const several = Object.values(calls).map(([ours]) => ours)
      expect(channelCalls.multicall(several)).toBe(theirs('multicall', [several]))
    }),
    { numRuns: 100 },
  )
})

test.each(channelVectors.deposits)('a deposit on chain $chainId carries what the collector reads', (vector) => {
  const { validAfter, validBefore, salt, signature, collectorData } = vector
  const authorization = { validAfter: BigInt(validAfter), validBefore: BigInt(validBefore), salt, signature }
  const args = [config, BigInt(vector.amount), erc3009CollectorAddress, collectorData]
  expect(channelCalls.deposit(config, BigInt(vector.amount), authorization)).toBe(theirs('deposit', args))
})

type Request = { method: string; params: readonly unknown[] }

/** A chain whose contract gives this answer. */
function readerOf(answer: unknown) {
  const requests: Request[] = []
  const request = async (method: string, params: readonly unknown[]) => {
    requests.push({ method, params })
    return answer
  }
  return { reader: createChannelReader({ request }), requests }
}

const words = (...values: bigint[]) =>
  `0x${values.map((value) => numberToHex(value, { size: 32 }).slice(2)).join('')}` as Hex
const results = (...items: Hex[]) => encodeAbiParameters(parseAbiParameters('bytes[]'), [items])

test('the states of several channels are read by one call, so that all are of one block', async () => {
  const answer = results(
    ...[words(1000n, 400n), words(0n, 0n), words(0n)],
    ...[words(2n ** 128n - 1n, 0n), words(7n, 1_790_000_000n), words(3n)],
  )
  const { reader, requests } = readerOf(answer)
  const ids = channelVectors.channels.slice(0, 2).map(({ channelId }) => channelId)
  expect(await reader.channels(ids)).toEqual([
    { balance: 1000n, totalClaimed: 400n, withdrawal: undefined, refundNonce: 0n },
    {
      balance: 2n ** 128n - 1n,
      totalClaimed: 0n,
      withdrawal: { amount: 7n, initiatedAt: 1_790_000_000 },
      refundNonce: 3n,
    },
  ])
  const getters = ids.flatMap((id) =>
    ['channels', 'pendingWithdrawals', 'refundNonce'].map((name) => theirs(name, [id])),
  )
  const call = { to: batchSettlementAddress, data: theirs('multicall', [getters]) }
  expect(requests).toEqual([{ method: 'eth_call', params: [call, 'latest'] }])
})

test('nothing is asked about no channels', async () => {
  const { reader, requests } = readerOf('0x')
  expect(await reader.channels([])).toEqual([])
  expect(requests).toEqual([])
})

test('the sums of a receiver are read', async () => {
  const { reader, requests } = readerOf(words(900n, 400n))
  const { receiver, token } = config as { receiver: Hex; token: Hex }
  expect(await reader.receiver(receiver, token)).toEqual({ totalClaimed: 900n, totalSettled: 400n })
  const call = { to: batchSettlementAddress, data: theirs('receivers', [receiver, token]) }
  expect(requests).toEqual([{ method: 'eth_call', params: [call, 'latest'] }])
})

const state = [words(5n, 5n), words(0n, 0n), words(0n)] as const
test.each([
  ['no contract', '0x'],
  ['no hex', null],
  ['one result too few', results(state[0], state[1])],
  ['one result too many', results(...state, state[2])],
  ['a result that lacks a word', results(words(5n), state[1], state[2])],
  ['a result with half a word', results(`${state[0]}00`, state[1], state[2])],
  ['more claimed than deposited', results(words(5n, 6n), state[1], state[2])],
  ['a withdrawal from beyond all time', results(state[0], words(1n, 2n ** 40n), state[2])],
  ['an offset outside of the answer', words(32n, 3n, 2n ** 200n, 0n, 0n)],
  ['an offset between words', words(32n, 3n, 97n, 97n, 97n, 0n, 0n)],
  ['a length beyond the answer', words(32n, 3n, 96n, 96n, 96n, 2n ** 200n)],
])('an answer with %s is the RPC failing, not a state', async (_, answer) => {
  await expect(readerOf(answer).reader.channels([config.salt as Hex])).rejects.toMatchObject({
    code: 'CHAIN_UNAVAILABLE',
  })
})
