/** T35: a client that sends its request again after a restart of the node, and does not say so, pays once. */
import { writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ChatOpenAI } from '@langchain/openai'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTradingPair, type TradingPair } from '../support/trading-pair.ts'
import { until } from '../support/until.ts'

const PRICE = 5_000n
/** A result that was given answers for half a minute. Names that are made of the time are others by then. */
const LATER_MS = 31_000
let pair: TradingPair
let runs: string
/** By how much the clocks of the buyer have gone on, in ms. */
let ahead = 0

/** Notes its run, waits for the file that its task names, and answers with its task. */
const waiting = (file: string) => `
  const { appendFileSync, existsSync, readFileSync } = require('node:fs')
  const task = readFileSync(0, 'utf8')
  appendFileSync(${JSON.stringify(file)}, 'x')
  setInterval(() => existsSync(task) && process.stdout.write(task, () => process.exit(0)), 20)`

beforeAll(async () => {
  pair = await startTradingPair(
    (home) => {
      runs = join(home, 'runs')
      const agent = (name: string, code: string) => ({
        ...{ name, description: `${name}.`, price: PRICE, command: [process.execPath, '-e', code] },
      })
      return [
        agent('waiting', waiting(runs)),
        agent('broken', 'process.exit(3)'),
        agent('prose', `process.stdout.write('no JSON')`),
      ]
    },
    (home) => ({
      ...{ dataDir: join(home, 'buyer'), openai: { enabled: true } },
      ports: { clock: { now: () => Date.now() + ahead, monotonic: () => performance.now() + ahead } },
    }),
  )
})
afterAll(() => pair?.stop())

const runsOf = async () => (await readFile(runs, 'utf8').catch(() => '')).length
const idOf = (name: string) => pair.listed[name]!.id
const ordersOf = async (name: string) =>
  (await pair.buyer.node.orders.list({ agentId: idOf(name), limit: 50 })).items.length

/** As LangChain sends it: each try is a new request, which says nothing of those before. */
const langChain = (name: string, maxRetries: number) => {
  const configuration = { baseURL: `${pair.buyer.url}/v1` }
  return new ChatOpenAI({ model: idOf(name), apiKey: 'any key', maxRetries, configuration })
}

test('a result that its client could not take is told again half a minute later; one that it got is bought again', async () => {
  const completions = new OpenAI({ baseURL: `${pair.buyer.url}/v1`, apiKey: 'any key', maxRetries: 0 }).chat.completions
  const messages = [{ role: 'user' as const, content: 'Say it' }]
  const ask = (more: object) =>
    completions.create({ model: idOf('prose'), messages, ...more }).then(
      ({ choices }) => choices[0]!.message.content,
      ({ code }: { code: string }) => code,
    )
  const wantsJson = { response_format: { type: 'json_object' } }
  expect([await ask({}), await ask(wantsJson)]).toEqual(['no JSON', 'paid_but_failed'])
  expect(await ordersOf('prose')).toBe(2)
  ahead += LATER_MS
  expect(await ask(wantsJson)).toBe('paid_but_failed')
  expect(await ordersOf('prose')).toBe(2)
  expect(await ask({})).toBe('no JSON')
  expect(await ordersOf('prose')).toBe(3)
})

test('what was paid for when the node ended is joined, and a failure that was paid for is told again', async () => {
  const fail = () => langChain('broken', 0).invoke('Fail once').catch(String)
  expect(await fail()).toMatch(/stoa order show/)
  const file = join(pair.home, 'go on')
  const first = langChain('waiting', 0)
    .invoke(file)
    .catch((error: Error) => error)
  await until(async () => (await runsOf()) === 1, { everyMs: 20 })
  await pair.buyer.stop()
  expect(await first).toBeInstanceOf(Error)
  ahead += LATER_MS
  pair.buyer = await pair.startBuyer()
  const again = langChain('waiting', 6).invoke(file)
  writeFileSync(file, '')
  expect((await again).content).toBe(file)
  expect(await fail()).toMatch(/stoa order show/)
  expect([await ordersOf('waiting'), await ordersOf('broken'), await runsOf()]).toEqual([1, 1, 1])
})
