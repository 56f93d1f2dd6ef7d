/** T35: clients of the OpenAI door that leave, that ask without pause, and agents that answer them with too much JSON. */
import { writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ask } from '../support/api-calls.ts'
import { startTradingPair, type TradingPair } from '../support/trading-pair.ts'
import { until } from '../support/until.ts'

const PRICE = 5_000n
const DEAR = 900_000n
let pair: TradingPair
let client: OpenAI
let runs: string
/** How far the clock of the node is ahead. */
let ahead = 0

/** Notes its run, waits for the file that its task names, and answers with its task. */
const waiting = (file: string) => `
  const { appendFileSync, existsSync, readFileSync } = require('node:fs')
  const task = readFileSync(0, 'utf8')
  appendFileSync(${JSON.stringify(file)}, 'x')
  setInterval(() => existsSync(task) && process.stdout.write(task, () => process.exit(0)), 20)`
const bomb = `process.stdout.write('['.repeat(100000) + ']'.repeat(100000))`

beforeAll(async () => {
  pair = await startTradingPair(
    (home) => {
      runs = join(home, 'runs')
      const agent = (name: string, price: bigint, code: string) => ({
        ...{ name, description: `${name}.`, price, command: [process.execPath, '-e', code] },
      })
      return [
        agent('waiting', PRICE, waiting(runs)),
        agent('bomb', 0n, bomb),
        agent('openai/gpt-4o-mini', DEAR, `process.stdout.write('dear')`),
      ]
    },
    (home) => ({
      ...{ dataDir: join(home, 'buyer'), openai: { enabled: true } },
      ports: { clock: { now: () => Date.now() + ahead, monotonic: () => performance.now() } },
    }),
  )
  client = new OpenAI({ baseURL: `${pair.buyer.url}/v1`, apiKey: 'any key', maxRetries: 0 })
})
afterAll(() => pair?.stop())

const say = (content: string) => [{ role: 'user' as const, content }]
const idOf = (name: string) => pair.listed[name]!.id
const runsOf = async () => (await readFile(runs, 'utf8').catch(() => '')).length
type Kept = { status: string; output?: string; payment?: { book: string } }

test('a client that leaves after the signature has its result in the order, and pays once for asking again', async () => {
  const file = join(pair.home, 'go')
  const asked = { model: idOf('waiting'), messages: say(file) }
  const leaving = new AbortController()
  const left = client.chat.completions.create(asked, { signal: leaving.signal }).catch(() => 'left')
  await until(async () => (await runsOf()) === 1, { everyMs: 20 })
  leaving.abort()
  expect(await left).toBe('left')
  const again = client.chat.completions.create(asked)
  writeFileSync(file, '')
  expect((await again).choices[0]!.message.content).toBe(file)
  const orders = await ask<Kept[]>(pair.buyer.url, '/orders?limit=10')
  expect(orders).toMatchObject([{ status: 'completed', output: file }])
  expect(await runsOf()).toBe(1)
})

test('JSON that is nested without end is not parsed to see whether it is JSON', async () => {
  const asked = { model: idOf('bomb'), messages: say('x'), response_format: { type: 'json_object' as const } }
  await expect(client.chat.completions.create(asked)).rejects.toMatchObject({
    ...{ status: 502, code: 'paid_but_failed', message: expect.stringMatching(/nested deeper/) },
  })
})

test('more calls than a key may make are refused, and told when to ask again', async () => {
  const calls = Array.from({ length: 90 }, (_, index) =>
    client.chat.completions.create({ model: 'nobody', messages: say(`${index}`) }).catch((error: unknown) => error),
  )
  const errors = (await Promise.all(calls)) as InstanceType<typeof OpenAI.APIError>[]
  const limited = errors.filter(({ status }) => status === 429)
  expect(limited.length).toBeGreaterThan(0)
  expect(limited[0]).toMatchObject({ code: 'rate_limit_exceeded' })
  expect(limited[0]!.headers!.get('retry-after')).toBe('5')
  expect(errors.filter(({ status }) => status === 404).length).toBeGreaterThanOrEqual(57)
})

test('more calls than may run at once are refused, and those that run are answered', async () => {
  const file = join(pair.home, 'all at once')
  const before = await runsOf()
  const keys = await Promise.all(
    ['a', 'b', 'c'].map(async (name) => {
      const body = { name, scope: 'spend', budget: '1' }
      return (await ask<{ token: string }>(pair.buyer.url, '/tokens', { body })).token
    }),
  )
  // The calls of one key join: 128 of them wait for three runs.
  const calls = Array.from({ length: 129 }, async (_, index) => {
    const own = new OpenAI({ baseURL: `${pair.buyer.url}/v1`, apiKey: keys[index % 3]!, maxRetries: 0 })
    const asked = { model: idOf('waiting'), messages: say(file) }
    return own.chat.completions.create(asked).catch((error: unknown) => error)
  })
  const refused = (await Promise.race(calls)) as InstanceType<typeof OpenAI.APIError>
  expect(refused).toMatchObject({ status: 429, code: 'rate_limit_exceeded' })
  expect(refused.message).toMatch(/128 calls at once/)
  expect(refused.headers!.get('retry-after')).toBe('5')
  writeFileSync(file, '')
  const answers = (await Promise.all(calls)) as { choices?: { message: { content: string } }[] }[]
  expect(answers.filter(({ choices }) => choices?.[0]?.message.content === file)).toHaveLength(128)
  expect((await runsOf()) - before).toBe(3)
})

/** A client with a token, and so with limits, of its own. */
async function clientOf(name: string): Promise<OpenAI> {
  const { token } = await ask<{ token: string }>(pair.buyer.url, '/tokens', {
    body: { name, scope: 'spend', budget: '1' },
  })
  return new OpenAI({ baseURL: `${pair.buyer.url}/v1`, apiKey: token, maxRetries: 0 })
}

test('T25: of two requests with one Idempotency-Key at once one is refused, and only the other is bought', async () => {
  const before = await runsOf()
  const own = await clientOf('spender')
  const files = ['first', 'second'].map((name) => join(pair.home, name))
  for (const file of files) writeFileSync(file, '')
  const headers = { 'idempotency-key': 'one-for-both' }
  // Each is sent twice: the same request joins its first one.
  const calls = [...files, ...files].map((file) =>
    own.chat.completions.create({ model: idOf('waiting'), messages: say(file) }, { headers }),
  )
  const ends = await Promise.allSettled(calls)
  const said = ends.flatMap((end) => (end.status === 'fulfilled' ? end.value.choices[0]!.message.content : []))
  expect([said.length, new Set(said).size]).toEqual([2, 1])
  for (const end of ends.filter(({ status }) => status === 'rejected')) {
    expect(end).toMatchObject({ reason: { status: 400, code: 'idempotency_conflict' } })
  }
  expect((await runsOf()) - before).toBe(1)
})

test('T25: a request whose Idempotency-Key is none is refused, because its client relies on it', async () => {
  const before = await runsOf()
  const own = await clientOf('careful')
  for (const key of ['two words', 'ü', 'x'.repeat(256)]) {
    const asked = { model: idOf('waiting'), messages: say(join(pair.home, 'first')) }
    await expect(own.chat.completions.create(asked, { headers: { 'idempotency-key': key } })).rejects.toMatchObject({
      ...{ status: 400, message: expect.stringMatching(/Idempotency-Key must be 1 to 255 visible ASCII characters/) },
    })
  }
  expect(await runsOf()).toBe(before)
})

test('T19: calls of one token leave half of the places to others', async () => {
  const file = join(pair.home, 'one token')
  const [greedy, other] = [await clientOf('greedy'), await clientOf('other')]
  const call = (of: OpenAI) =>
    of.chat.completions.create({ model: idOf('waiting'), messages: say(file) }).catch((error: unknown) => error)
  const many = (count: number) => Array.from({ length: count }, () => call(greedy))
  const calls = many(60)
  const before = await runsOf()
  await until(async () => (await runsOf()) > before, { everyMs: 20 })
  // A minute later it may send as many again.
  ahead += 60_000
  calls.push(...many(60))
  const refused = await Promise.race(calls)
  expect(refused).toMatchObject({ status: 429, message: expect.stringMatching(/64 calls at once with one key/) })
  const others = call(other)
  await until(async () => (await runsOf()) > before + 1, { everyMs: 20 })
  writeFileSync(file, '')
  expect(await others).toMatchObject({ choices: [{ message: { content: file } }] })
  const answers = (await Promise.all(calls)) as { choices?: unknown }[]
  expect(answers.filter(({ choices }) => choices !== undefined)).toHaveLength(64)
})

test('T35: a stranger that is called like a model of a vendor is not paid what it likes', async () => {
  const own = await clientOf('hopeful')
  const balance = () => pair.devnet.chain.balanceOf(pair.devnet.wallets.buyer.address)
  const before = await balance()
  const asked = { model: 'openai/gpt-4o-mini', messages: say('Say hello') }
  await expect(own.chat.completions.create(asked)).rejects.toMatchObject({ status: 402, code: 'budget_exceeded' })
  expect(await balance()).toBe(before)
})
