/** T16 T36 across crashes: a seller is killed between a voucher over HTTP and its charge. The channel on the chain judges. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { openChannelBuyer, purchaseOf } from '../support/http-channel-buyer.ts'
import { killNodeProcesses } from '../support/node-process.ts'
import { openPublicSeller } from '../support/public-process.ts'
import { patiently } from '../support/public-seller.ts'

const PRICE = 10_000n
const FUNDS = 1_000_000n
let devnet: Devnet

beforeAll(async () => {
  devnet = await startDevnet()
})
afterAll(async () => {
  await killNodeProcesses()
  await devnet?.stop()
})

test.each([
  ['seller:channel-taken', 'nothing ran: the same voucher buys its run', 1],
  ['seller:executed', 'the result is lost and costs nothing: the same voucher buys a run', 2],
  ['seller:channel-charged', 'the same request gets the stored result', 1],
])('killed at %s: %s', async (faultPoint, _what, runs) => {
  const seller = await openPublicSeller(devnet, { channels: 'auto' })
  let serving = await seller.start({ faultPoint, armsLater: true })
  let sent: { headers: Headers; body: string } | undefined
  const buyer = await openChannelBuyer(devnet, {
    funds: FUNDS,
    async pay(request) {
      sent = { headers: request.headers, body: await request.clone().text() }
      return patiently(() => fetch(request.clone()))
    },
  })
  expect((await buyer.buy(serving.at('repeat'), 'the first')).status).toBe(200)
  await serving.arm()
  const lost = buyer.buy(serving.at('repeat'), 'the lost one').catch(() => undefined)
  expect(await serving.exited).toEqual({ code: null, signal: 'SIGKILL' })
  await lost

  serving = await seller.start()
  const again = () => fetch(serving.at('repeat'), { method: 'POST', ...sent! })
  const answers = await Promise.all(Array.from({ length: 5 }, async () => purchaseOf(await patiently(again))))
  const result = { status: 200, text: '{"result":"the lost one"}', charged: String(PRICE) }
  expect(answers).toEqual(answers.map(() => result))
  const next = await buyer.buy(serving.at('repeat'), 'the next')
  expect(next).toEqual({ status: 200, text: '{"result":"the next"}', charged: String(PRICE) })
  expect(await seller.runsOf('the lost one')).toBe(runs)
  // A refund claims what is charged, and gives back the rest: the seller has no more than three prices.
  await buyer.refund(serving.at('repeat'))
  expect(FUNDS - (await devnet.chain.balanceOf(buyer.address))).toBe(3n * PRICE)
  await serving.stop()
})
