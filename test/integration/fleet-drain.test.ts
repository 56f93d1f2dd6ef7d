/** Processes of one seller that are replaced one after the other under calls. None of the calls fails for it. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { eachByItself } from '../support/each-by-itself.ts'
import { startTestNode, stopTestNodes, type TestNode } from '../support/loopback-node.ts'
import { killNodeProcesses } from '../support/node-process.ts'
import { openSellerFleet } from '../support/seller-fleet.ts'

const PROCESSES = ['a', 'b', 'c']
let devnet: Devnet
let buyer: TestNode

beforeAll(async () => {
  devnet = await startDevnet()
  const { rpcUrl, facilitatorUrl } = devnet
  const key = devnet.wallets.buyer.privateKey
  buyer = await startTestNode({ key, rpcUrl, facilitatorUrl, dailyBudgetAtomic: 100_000_000n, ...eachByItself })
})
afterAll(async () => {
  await killNodeProcesses()
  await stopTestNodes()
  await devnet.stop()
})

test('T16 T17 processes that are stopped and started again under calls fail none of them', async () => {
  const fleet = await openSellerFleet(PROCESSES, { devnet, buyer })
  for (const name of PROCESSES) await fleet.start(name)
  const calls = fleet.buy()
  for (const name of PROCESSES) {
    await calls.some()
    expect(await fleet.stop(name)).toEqual({ code: 0, signal: null })
    await fleet.start(name)
  }
  const outcomes = await calls.end()
  expect(outcomes.filter((outcome) => outcome !== 'done')).toEqual([])
  const { length } = outcomes
  expect(await fleet.account()).toEqual({ runs: length, different: length, paid: length })
}, 400_000)
