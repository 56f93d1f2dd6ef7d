/** T5 T36 D53: a seller of two processes behind its public listener. A payment reaches either of them, or both at once. */
import { randomUUID } from 'node:crypto'
import { decodePaymentResponseHeader } from '@x402/core/http'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { testDir } from '../support/loopback-node.ts'
import { killNodeProcesses } from '../support/node-process.ts'
import { startPublicFleet } from '../support/public-process.ts'
import { type PublicAnswer, patiently, send, sendTask, signFor, termsAt } from '../support/public-seller.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
const FUNDS = 1_000_000n
const ROUNDS = 6
const key = generatePrivateKey()
let devnet: Devnet
let seller: Awaited<ReturnType<typeof startPublicFleet>>

beforeAll(async () => {
  devnet = await startDevnet()
  seller = await startPublicFleet(devnet)
  await devnet.fund(privateKeyToAccount(key).address, FUNDS)
})
afterAll(async () => {
  await killNodeProcesses()
  await seller?.drop()
  await devnet?.stop()
})

const at = (index: number, name = 'repeat') => seller.processes[index]!.at(name)
const runsOf = (task: string) => seller.runsOf(task)
const spent = async () => FUNDS - (await devnet.chain.balanceOf(privateKeyToAccount(key).address))

const receiptIn = ({ headers }: PublicAnswer) => decodePaymentResponseHeader(headers.get('payment-response')!)

test('a request that two processes get at once is answered by both with the result of its one run', async () => {
  const before = await spent()
  for (let round = 0; round < ROUNDS; round++) {
    const task = `both ${round} ${randomUUID()}`
    const paid = await signFor(await termsAt(at(0)), key)
    const answers = await Promise.all([0, 1, 0, 1].map((index) => patiently(() => sendTask(at(index), task, paid))))
    // No answer may tell the buyer of this request to sign another payment.
    expect(answers.map(({ status, text }) => [status, text])).toEqual(
      answers.map(() => [200, JSON.stringify({ result: task })]),
    )
    const receipts = answers.map(receiptIn)
    expect(receipts).toEqual(answers.map(() => receipts[0]))
    expect(await runsOf(task)).toBe(1)
  }
  expect((await spent()) - before).toBe(PRICE * BigInt(ROUNDS))
})

test('a lost answer is asked for at the other process, while the agent works and later', async () => {
  const before = await spent()
  const paid = await signFor(await termsAt(at(0)), key)
  const task = `lost ${randomUUID()}`
  const leaving = new AbortController()
  const ask = (index: number) => patiently(() => sendTask(at(index), task, paid))
  const lost = ask(0)
  void send(at(0), { headers: paid, signal: leaving.signal }).catch(() => undefined)
  await until(async () => (await runsOf(task)) === 1, { everyMs: 20 })
  leaving.abort()
  const [there, here] = await Promise.all([ask(1), lost])
  expect([there.status, there.json]).toEqual([200, { result: task }])
  expect(here.text).toBe(there.text)
  expect(receiptIn(await ask(1))).toEqual(receiptIn(here))
  for (const index of [0, 1]) expect((await sendTask(at(index), 'another', paid)).status).toBe(409)
  expect([await runsOf(task), await runsOf('another'), (await spent()) - before]).toEqual([1, 0, PRICE])
})

test('two requests with one payment, one at each process, buy one run', async () => {
  const before = await spent()
  for (let round = 0; round < ROUNDS; round++) {
    const paid = await signFor(await termsAt(at(0)), key)
    const tasks = [`one ${round} ${randomUUID()}`, `two ${round} ${randomUUID()}`]
    const answers = await Promise.all(tasks.map((task, index) => patiently(() => sendTask(at(index), task, paid))))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409])
    expect((await runsOf(tasks[0]!)) + (await runsOf(tasks[1]!))).toBe(1)
  }
  expect((await spent()) - before).toBe(PRICE * BigInt(ROUNDS))
})

test.each([
  ['seller:claimed', 502, 0],
  ['seller:executed', 502, 1],
  ['seller:owed', 200, 1],
  ['seller:settle-answered', 200, 1],
])(
  'a process is killed at %s: the other one answers the same request once it knows how the payment ended',
  async (faultPoint, status, runs) => {
    const before = await spent()
    const task = `killed at ${faultPoint} ${randomUUID()}`
    const third = await seller.start({ dir: await testDir(), faultPoint })
    const paid = await signFor(await termsAt(third.at('repeat')), key)
    const lost = sendTask(third.at('repeat'), task, paid).catch(() => undefined)
    expect(await third.exited).toEqual({ code: null, signal: 'SIGKILL' })
    await lost
    const told: number[] = []
    let answer: PublicAnswer
    do {
      answer = await sendTask(at(1), task, paid)
      told.push(answer.status)
    } while (answer.status === 504 || answer.status === 503)
    // Meanwhile nobody was told to sign another payment.
    expect([answer.status, told.slice(0, -1).every((one) => one === 504 || one === 503)]).toEqual([status, true])
    if (status === 200) expect(answer.json).toEqual({ result: task })
    else expect(answer.json).toMatchObject({ error: { code: 'AGENT_FAILED', settlement: 'none' } })
    await until(async () => (await spent()) - before === (status === 200 ? PRICE : 0n))
    expect(await runsOf(task)).toBe(runs)
  },
)
