/** T5 T36: calls on a payment channel over HTTP that reach two processes of a seller. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { type ChannelPurchase, openChannelBuyer, purchaseOf } from '../support/http-channel-buyer.ts'
import { killNodeProcesses } from '../support/node-process.ts'
import { startPublicFleet } from '../support/public-process.ts'
import { patiently } from '../support/public-seller.ts'

const PRICE = 10_000n
const FUNDS = 1_000_000n
const ROUNDS = 5
let devnet: Devnet
let seller: Awaited<ReturnType<typeof startPublicFleet>>

beforeAll(async () => {
  devnet = await startDevnet()
  seller = await startPublicFleet(devnet, { channels: 'auto' })
})
afterAll(async () => {
  await killNodeProcesses()
  await seller?.drop()
  await devnet?.stop()
})

test('a call that two processes get at once runs once, is charged once, and both give its result', async () => {
  const places = () => seller.processes.map((one) => one.at('repeat'))
  const answers: ChannelPurchase[] = []
  const buyer = await openChannelBuyer(devnet, {
    funds: FUNDS,
    async pay(request) {
      const body = await request.text()
      const { headers } = request
      const both = await Promise.all(
        places().map((url) => patiently(() => fetch(url, { method: 'POST', headers, body }))),
      )
      answers.push(...(await Promise.all(both.map((answer) => purchaseOf(answer.clone())))))
      return both[0]!
    },
  })
  for (let round = 0; round < ROUNDS; round++) {
    answers.length = 0
    const task = `both ${round} ${randomUUID()}`
    const { status, text } = await buyer.buy(places()[0]!, task)
    expect([status, JSON.parse(text)]).toEqual([200, { result: task }])
    // Nobody is told to sign again: a client would pay for the same request twice.
    const same = { status: 200, text: JSON.stringify({ result: task }), charged: String(PRICE) }
    expect(answers).toEqual([same, same])
    expect(await seller.runsOf(task)).toBe(1)
  }
  await buyer.refund(places()[0]!)
  expect(FUNDS - (await devnet.chain.balanceOf(buyer.address))).toBe(PRICE * BigInt(ROUNDS))
})

test('a proxy that spreads the calls of one channel over two processes gets an answer of each, without asking again', async () => {
  let asked = 0
  const buyer = await openChannelBuyer(devnet, {
    funds: FUNDS,
    pay: async (request) => fetch(new Request(seller.processes[++asked % 2]!.at('repeat'), request)),
  })
  const url = seller.processes[0]!.at('repeat')
  for (let round = 0; round < ROUNDS; round++) {
    const task = `spread ${round} ${randomUUID()}`
    const answer = await buyer.buy(url, task)
    expect(answer).toEqual({ status: 200, text: JSON.stringify({ result: task }), charged: String(PRICE) })
  }
  // The process that answered the last call still has the channel.
  await buyer.refund(seller.processes[(asked + 1) % 2]!.at('repeat'))
  expect(FUNDS - (await devnet.chain.balanceOf(buyer.address))).toBe(PRICE * BigInt(ROUNDS))
})
