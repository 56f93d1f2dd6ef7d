import { toEventSelector } from 'viem'
import { expect, test } from 'vitest'
import { eventTopics } from './abi.ts'
import { findChannels } from './channel-log.ts'

test('the topics of deposits are those of the contract', () => {
  const terms = '(address,address,address,address,address,uint40,bytes32)'
  expect(eventTopics.channelCreated).toBe(toEventSelector(`ChannelCreated(bytes32,${terms})`))
  expect(eventTopics.deposited).toBe(toEventSelector('Deposited(bytes32,address,uint128,uint128)'))
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
