/** The OpenAI door: clients that others wrote buy agents through it, and a real chain shows the money. */
import { randomUUID } from 'node:crypto'
import { existsSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { ChatOpenAI } from '@langchain/openai'
import { generateText, streamText } from 'ai'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Devnet } from '../../devnet/devnet.ts'
import { ask } from '../support/api-calls.ts'
import type { TestNode } from '../support/test-node.ts'
import { startTradingPair, type TradingPair } from '../support/trading-pair.ts'
import { until } from '../support/until.ts'

const PRICE = 5_000n
const DEAR = 50_000n

let pair: TradingPair
let devnet: Devnet
let buyer: TestNode
let client: OpenAI
let runs: string
const idOf = (name: string) => pair.listed[name]!.id

/** Says a line, and the next one when the file that its task names is there. */
const twoLines = `
  const { existsSync, readFileSync } = require('node:fs')
  const file = readFileSync(0, 'utf8')
  process.stdout.write('first line\\n')
  setInterval(() => {
    if (!existsSync(file)) return
    process.stdout.write('second line\\n')
    process.exit(0)
  }, 20)`
/** Counts its runs in a file, waits for another file if its task names one, and answers with its task. */
const counting = (file: string) => `
  const { appendFileSync, existsSync, readFileSync } = require('node:fs')
  const task = readFileSync(0, 'utf8')
  appendFileSync(${JSON.stringify(file)}, 'x')
  const wait = /wait for (\\S+)/.exec(task)?.[1]
  const end = () => { process.stdout.write('said: ' + task); process.exit(0) }
  if (wait === undefined) end()
  else setInterval(() => existsSync(wait) && end(), 20)`

beforeAll(async () => {
  pair = await startTradingPair(
    (home) => {
      runs = join(home, 'runs')
      const script = (code: string) => [process.execPath, '-e', code]
      const agent = (name: string, price: bigint, more: object) => ({ name, description: `${name}.`, price, ...more })
      return [
        agent('echo', PRICE, { model: 'builtin/echo', tags: ['chat'] }),
        agent('lines', PRICE, { command: script(twoLines) }),
        agent('counter', PRICE, { command: script(counting(runs)) }),
        agent('broken', PRICE, { command: script('process.exit(3)'), tags: ['broken'] }),
        agent('free broken', 0n, { command: script('process.exit(3)'), tags: ['mixed'] }),
        agent('free echo', 0n, { model: 'builtin/echo', tags: ['mixed'] }),
        agent('json', 0n, { command: script(`process.stdout.write('{"a":1}')`) }),
        agent('oracle', DEAR, { model: 'builtin/echo' }),
      ]
    },
    (home) => ({
      ...{ dataDir: join(home, 'buyer'), buyer: { autoApproveBelowAtomic: DEAR }, openai: { enabled: true } },
    }),
  )
  ;({ devnet, buyer } = pair)
  client = new OpenAI({ baseURL: `${buyer.url}/v1`, apiKey: 'any key' })
})
afterAll(() => pair?.stop())

const balance = () => devnet.chain.balanceOf(devnet.wallets.buyer.address)
const say = (content: string) => [{ role: 'user' as const, content }]
/** What clients see of a failure. */
const failure = async (call: Promise<unknown>) => {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(OpenAI.APIError)
  return error as InstanceType<typeof OpenAI.APIError>
}

test('the SDK of OpenAI lists agents as models', async () => {
  const { data } = await client.models.list()
  expect(data.map(({ id }) => id)).toEqual(
    expect.arrayContaining(['auto', 'auto:cheap', 'auto:fast', 'auto:best', idOf('echo'), idOf('free echo')]),
  )
  expect(await client.models.retrieve(idOf('echo'))).toMatchObject({ name: 'echo', pricing: { request: '0.005' } })
  expect(data.map(({ id }) => id)).toEqual(expect.arrayContaining(['tag:chat', 'tag:mixed']))
  for (const id of ['tag:mixed', 'tag:mixed:fast', 'auto:best']) {
    expect(await client.models.retrieve(id)).toMatchObject({ id, owned_by: 'stoa' })
  }
  expect(await failure(client.models.retrieve('tag:nobody'))).toMatchObject({ status: 404 })
  expect(await failure(client.models.retrieve('nobody/nothing'))).toMatchObject({
    status: 404,
    code: 'model_not_found',
  })
})

test('a chat buys the answer of an agent, and says what it cost', async () => {
  const { data, response } = await client.chat.completions
    .create({ model: idOf('echo'), messages: say('Say hello') })
    .withResponse()
  expect(data).toMatchObject({
    object: 'chat.completion',
    model: idOf('echo'),
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Say hello' } }],
    usage: { prompt_tokens: 3, cost: 0.005 },
  })
  const order = await buyer.node.orders.get(response.headers.get('x-stoa-order')!)
  expect(order).toMatchObject({ status: 'completed', task: 'Say hello', payment: { amount: '0.005' } })
  expect(response.headers.get('x-stoa-cost')).toBe('0.005')
  expect(await failure(client.chat.completions.create({ model: 'auto', messages: [] }))).toMatchObject({ status: 400 })
})

test('the metrics count requests by outcome, what was spent, and what was joined', async () => {
  const sample = async (name: string) => {
    const text = await (await fetch(`${buyer.url}/metrics`)).text()
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.split(' ')
        .at(-1),
    )
  }
  const answered = 'stoa_openai_requests_total{outcome="answered"}'
  const before = {
    answered: await sample(answered),
    spent: await sample('stoa_openai_spent_usdc_total'),
    joined: await sample('stoa_openai_joined_total'),
  }
  const round = randomUUID()
  const ask = () => client.chat.completions.create({ model: idOf('echo'), messages: say(`Count me ${round}`) })
  await Promise.all([ask(), ask()])
  expect(await sample(answered)).toBe(before.answered + 2)
  expect(await sample('stoa_openai_spent_usdc_total')).toBeCloseTo(before.spent + 0.005, 9)
  expect(await sample('stoa_openai_joined_total')).toBe(before.joined + 1)
  expect(await sample('stoa_openai_requests_running')).toBe(0)
  expect(await sample('stoa_openai_request_seconds_count')).toBeGreaterThanOrEqual(2)
})

test('auto routes to an agent that fits, and tag:… to agents with the tag', async () => {
  const auto = await client.chat.completions.create({ model: 'auto:cheap', messages: say('Route me') })
  expect(auto.model).toBe(idOf('echo'))
  const mixed = await client.chat.completions
    .create({ model: 'tag:mixed', messages: say('One of you works') })
    .withResponse()
  // The one that fails costs nothing, and the next one is asked.
  expect(mixed.data.choices[0]!.message.content).toBe('One of you works')
  expect(mixed.data.model).toBe(idOf('free echo'))
})

test('a stream shows the first line before the agent says the second', async () => {
  const file = join(pair.home, `go-on-${randomUUID()}`)
  const stream = await client.chat.completions.create({
    ...{ model: idOf('lines'), messages: say(file), stream: true },
    stream_options: { include_usage: true },
  })
  let text = ''
  let cost: unknown
  const reasons: unknown[] = []
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? ''
    reasons.push(...chunk.choices.map(({ finish_reason }) => finish_reason).filter((reason) => reason !== null))
    if (chunk.usage) cost = (chunk.usage as { cost?: number }).cost
    if (text.startsWith('first line') && !existsSync(file)) writeFileSync(file, '')
  }
  expect(text.trimEnd()).toBe('first line\nsecond line')
  expect({ reasons, cost }).toEqual({ reasons: ['stop'], cost: 0.005 })
})

test('the Responses API answers whole and as a stream', async () => {
  const whole = await client.responses.create({ model: idOf('echo'), input: 'Whole', instructions: 'Be short.' })
  expect(whole.output_text).toBe('System:\nBe short.\n\nUser:\nWhole')
  const stream = client.responses.stream({ model: idOf('echo'), input: [{ role: 'user', content: 'Streamed' }] })
  expect((await stream.finalResponse()).output_text).toBe('Streamed')
})

test('the AI SDK generates and streams, over both endpoints', async () => {
  const options = { baseURL: `${buyer.url}/v1`, apiKey: 'x' }
  const models = [
    createOpenAI(options)(idOf('echo')),
    createOpenAI(options).chat(idOf('echo')),
    createOpenAICompatible({ name: 'stoa', ...options })(idOf('echo')),
  ]
  for (const [place, model] of models.entries()) {
    expect((await generateText({ model, prompt: `Generate ${place}` })).text).toBe(`Generate ${place}`)
    const streamed = streamText({ model, prompt: `Stream ${place}` })
    expect(await streamed.text).toBe(`Stream ${place}`)
    expect(await streamed.finishReason).toBe('stop')
  }
})

test('LangChain invokes and streams', async () => {
  const configuration = { baseURL: `${buyer.url}/v1` }
  const chat = new ChatOpenAI({ model: idOf('echo'), apiKey: 'x', configuration })
  expect((await chat.invoke('Chain')).content).toBe('Chain')
  let text = ''
  for await (const chunk of await chat.stream('Chain in pieces')) text += chunk.content
  expect(text).toBe('Chain in pieces')
})

test('a failed run that was paid for is told once, and no SDK sends it again', async () => {
  const before = await ordersOf('broken')
  const error = await failure(
    client.chat.completions.create({
      model: 'tag:broken',
      messages: say(`Fail ${randomUUID()}`),
      max_price: 1,
    } as never),
  )
  expect(error).toMatchObject({ status: 502, code: 'paid_but_failed' })
  expect(error.message).toContain('stoa order show')
  expect(await ordersOf('broken')).toBe(before + 1)
  const stream = await client.chat.completions.create({
    model: idOf('broken'),
    messages: say(`Fail again ${randomUUID()}`),
    stream: true,
  })
  await expect(Array.fromAsync(stream)).rejects.toMatchObject({ code: 'paid_but_failed' })
})
const ordersOf = async (name: string) => (await buyer.node.orders.list({ agentId: idOf(name), limit: 50 })).items.length

test('T35: identical requests at once, and one that is sent again, buy once', async () => {
  const file = join(pair.home, `twice-${randomUUID()}`)
  const before = await balance()
  const had = { orders: await ordersOf('counter'), runs: await runsOf() }
  const asked = { model: idOf('counter'), messages: say(`Wait once, wait for ${file}`) }
  const both = [
    client.chat.completions.create(asked),
    client.chat.completions.create({ messages: asked.messages, model: asked.model }),
  ]
  const streamed = client.chat.completions.create({ ...asked, stream: true })
  writeFileSync(file, '')
  const texts = (await Promise.all(both)).map(({ choices }) => choices[0]!.message.content)
  const again = await client.chat.completions.create(asked)
  expect(new Set([...texts, again.choices[0]!.message.content]).size).toBe(1)
  const chunks = await Array.fromAsync(await streamed)
  expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(texts[0])
  expect(await ordersOf('counter')).toBe(had.orders + 1)
  expect(await runsOf()).toBe(had.runs + 1)
  // A client that wants a second answer says so.
  await client.chat.completions.create(asked, { headers: { 'idempotency-key': file } })
  await client.chat.completions.create(asked, { headers: { 'idempotency-key': file } })
  expect(await runsOf()).toBe(had.runs + 2)
  expect(before - (await settled(before, 2n * PRICE))).toBe(2n * PRICE)
})
const runsOf = async () => (await readFile(runs, 'utf8').catch(() => '')).length
/** The balance once the payments have settled. */
async function settled(before: bigint, spent: bigint): Promise<bigint> {
  let now = before
  await until(async () => {
    now = await balance()
    return before - now >= spent
  })
  return now
}

test('a request that an SDK sends again after a restart of the node gets the first answer', async () => {
  const asked = { model: idOf('counter'), messages: say(`Before the restart ${randomUUID()}`) }
  const first = await client.chat.completions.create(asked)
  const ran = await runsOf()
  await buyer.stop()
  buyer = await pair.startBuyer()
  client = new OpenAI({ baseURL: `${buyer.url}/v1`, apiKey: 'any key' })
  const again = await client.chat.completions.create(asked, { headers: { 'x-stainless-retry-count': '1' } })
  expect(again.choices[0]!.message.content).toBe(first.choices[0]!.message.content)
  expect(await runsOf()).toBe(ran)
})

test('what the budget or the operator must decide is refused with a status that SDKs do not repeat', async () => {
  const held = await failure(client.chat.completions.create({ model: idOf('oracle'), messages: say('Dear') }))
  expect(held).toMatchObject({ status: 403, code: 'approval_required' })
  expect(held.message).toContain('stoa approvals approve')
  const over = { model: idOf('oracle'), messages: say('Too dear'), max_price: '0.01' }
  expect(await failure(client.chat.completions.create(over as never))).toMatchObject({ status: 402 })
  const named = await failure(client.chat.completions.create({ model: 'oracle', messages: say('By its name') }))
  expect(named).toMatchObject({ status: 402, code: 'budget_exceeded' })
  expect(named.message).toMatch(/openai_max_price: name the agent by its id, or send max_price/)
})

test('the door spends within a budget of its own, and a token within its own', async () => {
  const [token] = (await tokens()).filter(({ name }) => name === 'OpenAI door')
  expect(token).toMatchObject({ scope: 'spend', per_day: '1' })
  expect(Number(token?.spent)).toBeGreaterThan(0)
  const body = { name: 'editor', scope: 'spend', budget: '0.005' }
  const { token: apiKey } = await ask<{ token: string }>(buyer.url, '/tokens', { body })
  const editor = new OpenAI({ baseURL: `${buyer.url}/v1`, apiKey })
  await editor.chat.completions.create({ model: idOf('echo'), messages: say('Within') })
  const over = await failure(editor.chat.completions.create({ model: idOf('echo'), messages: say('Beyond') }))
  expect(over).toMatchObject({ status: 402, code: 'budget_exceeded' })
  const wrong = new OpenAI({ baseURL: `${buyer.url}/v1`, apiKey: `${apiKey}x` })
  expect(await failure(wrong.models.list())).toMatchObject({ status: 401, code: 'invalid_api_key' })
})
const tokens = () => ask<{ name: string; spent: string }[]>(buyer.url, '/tokens')

test('an answer that must be JSON is checked, and stop texts end an answer', async () => {
  const json = { response_format: { type: 'json_object' as const } }
  const fine = await client.chat.completions.create({ model: idOf('json'), messages: say('JSON'), ...json })
  expect(fine.choices[0]!.message.content).toBe('{"a":1}')
  const wrong = await failure(
    client.chat.completions.create({ model: idOf('free echo'), messages: say('no'), ...json }),
  )
  expect(wrong).toMatchObject({ status: 502, code: 'paid_but_failed' })
  const stopped = await client.chat.completions.create({
    model: idOf('free echo'),
    messages: say('one two three'),
    stop: ' t',
  })
  expect(stopped.choices[0]!.message.content).toBe('one')
})

test.each([
  ['n', { n: 2 }],
  ['logprobs', { logprobs: true }],
  ['tool_choice', { tool_choice: 'required' }],
  ['response_format', { response_format: { type: 'json_schema', json_schema: {} } }],
  ['modalities', { modalities: ['audio'] }],
])('%s is refused before anything is bought', async (param, field) => {
  const asked = { model: idOf('echo'), messages: say('x'), ...field }
  expect(await failure(client.chat.completions.create(asked as never))).toMatchObject({
    ...{ status: 400, param, code: 'unsupported_parameter' },
  })
})

test('tools and wishes of length are ignored, and the answer says so', async () => {
  const tools = [{ type: 'function' as const, function: { name: 'look', parameters: {} } }]
  const asked = { model: idOf('free echo'), messages: say('tools'), tools, max_tokens: 5, seed: 3, user: 'me' }
  const { response } = await client.chat.completions.create(asked).withResponse()
  expect(response.headers.get('x-stoa-ignored')).toBe('tools, max_tokens')
})

test('pages of other origins and bodies that are no JSON are refused', async () => {
  const url = `${buyer.url}/v1/chat/completions`
  const body = JSON.stringify({ model: idOf('echo'), messages: say('x') })
  const send = (headers: Record<string, string>) => fetch(url, { method: 'POST', body, headers })
  expect((await send({ 'content-type': 'text/plain' })).status).toBe(400)
  const json = { 'content-type': 'application/json' }
  expect((await send({ ...json, origin: 'https://evil.example' })).status).toBe(403)
  expect((await send({ ...json, 'sec-fetch-site': 'cross-site' })).status).toBe(403)
  const closed = await fetch(`${pair.seller.url}/v1/models`)
  expect(closed.status).toBe(404)
  expect(await closed.json()).toMatchObject({ error: { code: 'door_off' } })
})
