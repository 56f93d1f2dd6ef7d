import { toEventSelector } from 'viem'
import { expect, test } from 'vitest'
import { eventTopics } from './abi.ts'
import { batchSettlementAddress } from './batch-settlement.ts'
import { findChannels } from './channel-log.ts'
import { findTakenOut } from './channel-outflow.ts'

test('the topics of deposits are those of the contract', () => {
  const terms = '(address,address,address,address,address,uint40,bytes32)'
  expect(eventTopics.channelCreated).toBe(toEventSelector(`ChannelCreated(bytes32,${terms})`))
  expect(eventTopics.deposited).toBe(toEventSelector('Deposited(bytes32,address,uint128,uint128)'))
  expect(eventTopics.refunded).toBe(toEventSelector('Refunded(bytes32,address,uint128)'))
  expect(eventTopics.withdrawFinalized).toBe(toEventSelector('WithdrawFinalized(bytes32,address,uint128)'))
})

test('a deposit whose receipt the RPC does not show is not passed over in silence', async () => {
  const payer = `0x${'11'.repeat(20)}` as const
  const token = `0x${'22'.repeat(20)}` as const
  const deposit = {
    ...{ address: token, topics: [eventTopics.transfer], data: '0x', removed: false },
    ...{ transactionHash: `0x${'ab'.repeat(32)}`, logIndex: '0x0' },
  }
  const answers: Record<string, unknown> = {
    eth_blockNumber: '0x10',
    eth_getLogs: [deposit],
    eth_getTransactionReceipt: null,
  }
  const search = { payer, token, days: 1, id: () => `0x${'33'.repeat(32)}` as const }
  const found = await findChannels(search, { request: async (method) => answers[method] }, AbortSignal.timeout(1_000))
  expect(found).toEqual({ terms: new Map(), older: [], isWhole: false })
})

test('T15: what has left a channel is the sum of its refunds and withdrawals, back to where they make what is missing', async () => {
  const id = `0x${'33'.repeat(32)}` as const
  const hash = `0x${'ab'.repeat(32)}` as const
  let place = 0
  const log = (event: string, amount: number, changes = {}) => ({
    ...{ address: batchSettlementAddress, topics: [event, id, `0x${'00'.repeat(32)}`], removed: false },
    ...{
      data: `0x${amount.toString(16).padStart(64, '0')}`,
      transactionHash: hash,
      logIndex: `0x${(place++).toString(16)}`,
      ...changes,
    },
  })
  const { refunded, withdrawFinalized, deposited } = eventTopics
  const others = [
    log(deposited, 500),
    log(refunded, 500, { address: `0x${'22'.repeat(20)}` }),
    log(refunded, 500, { topics: [refunded, hash] }),
    log(refunded, 500, { removed: true }),
  ]
  let asked = 0
  const first = log(refunded, 3)
  const logs = [
    [first, ...others],
    [first, log(withdrawFinalized, 4)],
    [first, log(refunded, 5)],
  ]
  const request = async (method: string) => (method === 'eth_blockNumber' ? '0x2000' : (logs[asked++] ?? []))
  const find = (wanted: bigint) => {
    asked = 0
    return findTakenOut({ id, wanted, days: 1 }, { request })
  }
  expect([await find(7n), asked]).toEqual([{ amount: 7n, isWhole: true }, 2])
  expect(await find(13n)).toEqual({ amount: 12n, isWhole: true })
})
