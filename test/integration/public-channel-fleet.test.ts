/** T5 T36: calls on a payment channel over HTTP that reach two processes of a seller. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { type ChannelPurchase, openChannelBuyer, purchaseOf } from '../support/http-channel-buyer.ts'
import { testDir } from '../support/loopback-node.ts'
import { killNodeProcesses } from '../support/node-process.ts'
import { openPublicSeller, type PublicProcess } from '../support/public-process.ts'
import { createTestDatabase, type TestDatabase } from '../support/test-postgres.ts'

const PRICE = 10_000n
const FUNDS = 1_000_000n
const ROUNDS = 5
let devnet: Devnet
let database: TestDatabase
let seller: Awaited<ReturnType<typeof openPublicSeller>>
let processes: PublicProcess[]

beforeAll(async () => {
  devnet = await startDevnet()
  database = await createTestDatabase()
  const environment = { DATABASE_URL: database.address() }
  seller = await openPublicSeller(devnet, { environment, channels: 'auto' })
  const other = await testDir()
  processes = await Promise.all([seller.start(), seller.start({ dir: other })])
}, 120_000)
afterAll(async () => {
  await killNodeProcesses()
  await database?.drop()
  await devnet?.stop()
}, 30_000)

const runsOf = async (task: string) => (await seller.ran()).filter((run) => run === task).length

/** Sends a request again until it is answered with something else than 503 and 504, as the documentation says. */
async function patiently(request: Request): Promise<Response> {
  for (;;) {
    const answer = await fetch(request.clone())
    if (answer.status !== 503 && answer.status !== 504) return answer
  }
}

test('a call that two processes get at once runs once, is charged once, and both give its result', async () => {
  const places = () => processes.map((one) => one.at('repeat'))
  const answers: ChannelPurchase[] = []
  const buyer = await openChannelBuyer(devnet, {
    funds: FUNDS,
    async pay(request) {
      const body = await request.text()
      const both = await Promise.all(
        places().map((url) => patiently(new Request(url, { method: 'POST', headers: request.headers, body }))),
      )
      answers.push(...(await Promise.all(both.map((answer) => purchaseOf(answer.clone())))))
      return both[0]!
    },
  })
  for (let round = 0; round < ROUNDS; round++) {
    answers.length = 0
    const task = `both ${round}`
    const { status, text } = await buyer.buy(places()[0]!, task)
    expect([status, JSON.parse(text)]).toEqual([200, { result: task }])
    // Nobody is told to sign again: a client would pay for the same request twice.
    const same = { status: 200, text: JSON.stringify({ result: task }), charged: String(PRICE) }
    expect(answers).toEqual([same, same])
    expect(await runsOf(task)).toBe(1)
  }
  await buyer.refund(places()[0]!)
  expect(FUNDS - (await devnet.chain.balanceOf(buyer.address))).toBe(PRICE * BigInt(ROUNDS))
}, 240_000)
