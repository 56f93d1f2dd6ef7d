import { afterAll, beforeAll, expect, test } from 'vitest'
import { startFacilitator } from '../../devnet/facilitator.ts'
import { createChain } from '../../src/chain/chain.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createFacilitator } from '../../src/payments/facilitator.ts'
import { type ChainMarket, startChainMarket } from '../support/chain-market.ts'
import { type FaultyRpc, startFaultyRpc } from '../support/faulty-rpc.ts'
import { usdc } from '../support/payments.ts'
import { until } from '../support/until.ts'

/*
 * D40: the chain behind a facilitator that can be reached is away for half a minute, as RPC providers are. The work was done, the
 * authorizations are good for minutes: all of it is paid for. The facilitator is the reference one, which finds signatures wrong while
 * its RPC is away.
 */

const PRICE = 10_000n
const SALES = 4
const OUTAGE_MS = 25_000
let market: ChainMarket
let rpc: FaultyRpc
let stop: () => Promise<void>
beforeAll(async () => {
  market = await startChainMarket()
  rpc = await startFaultyRpc(market.devnet.rpcUrl)
  const served = await startFacilitator({ rpcUrl: rpc.url })
  await market.devnet.chain.fundGas(served.address)
  const facilitator = createFacilitator({ url: served.url })
  market.facilitator.settle = facilitator.settle
  stop = async () => {
    await facilitator.close()
    await served.stop()
    await rpc.stop()
    await market.stop()
  }
})
afterAll(() => stop())

test.each([
  ['the facilitator’s own RPC is away', false],
  ['the RPC of both is away', true],
])('D40: %s for 25 s, and every result is paid for', async (_what, isShared) => {
  const chainOf = (rpcUrl: string) =>
    createChain({ network: usdc.network, asset: usdc.address, rpcUrl, timeoutMs: 30_000 }, { logger: silentLogger })
  const seller = await market.seller({ chain: chainOf(isShared ? rpc.url : market.devnet.rpcUrl) })
  const { clock, payments, payee } = seller
  rpc.fault = (_request, response) => {
    response.writeHead(503).end('no')
    return true
  }
  const buyer = market.buyer(seller, await market.payer())
  const bought = await Promise.all(Array.from({ length: SALES }, () => buyer.execute({ input: 'hello' })))
  expect(bought.map(({ output }) => output)).toEqual(Array(SALES).fill('re: hello'))
  const ids = (await buyer.ledger()).map(({ reservation }) => reservation!.paymentId)
  const all = () => Promise.all(ids.map(async (id) => (await payments.get(id))!))
  const isAllDone = async () => (await all()).every(({ state }) => state !== 'owed')
  const isAllTried = async () =>
    (await all()).every(({ state, nextAttemptAt = 0 }) => state !== 'owed' || nextAttemptAt > clock.now())

  const start = clock.now()
  while (clock.now() < start + OUTAGE_MS) {
    await until(isAllTried)
    clock.advance(1_000)
  }
  rpc.fault = undefined
  await until(
    async () => {
      await until(isAllTried)
      const isDone = await isAllDone()
      if (!isDone) clock.advance(1_000)
      return isDone
    },
    { timeoutMs: 60_000, everyMs: 1 },
  )
  expect((await all()).map(({ state }) => state)).toEqual(Array(SALES).fill('settled'))
  expect(await market.devnet.chain.balanceOf(payee)).toBe(BigInt(SALES) * PRICE)
  for (const { attempts } of await all()) expect(attempts).toBeLessThanOrEqual(5)
})
