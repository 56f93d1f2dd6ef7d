import { toEventSelector } from 'viem'
import { expect, test } from 'vitest'
import { eventTopics } from './abi.ts'

test('the topics of deposits are those of the contract', () => {
  const terms = '(address,address,address,address,address,uint40,bytes32)'
  expect(eventTopics.channelCreated).toBe(toEventSelector(`ChannelCreated(bytes32,${terms})`))
  expect(eventTopics.deposited).toBe(toEventSelector('Deposited(bytes32,address,uint128,uint128)'))
})
