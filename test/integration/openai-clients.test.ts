/** Clients of others at the OpenAI door: each buys whole and streamed, is told of errors, and sends again without paying twice. */
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { ChatOpenAI } from '@langchain/openai'
import { APICallError, generateText, RetryError, streamText } from 'ai'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { breakingDoor } from '../support/breaking-door.ts'
import { startTradingPair, type TradingPair } from '../support/trading-pair.ts'

const PRICE = 5_000n
let pair: TradingPair
const idOf = (name: string) => pair.listed[name]!.id
const ordersOf = async (name: string) =>
  (await pair.buyer.node.orders.list({ agentId: idOf(name), limit: 200 })).items.length

beforeAll(async () => {
  const agent = (name: string, more: object) => ({ name, description: `${name}.`, price: PRICE, ...more })
  const failing = { command: [process.execPath, '-e', 'process.exit(3)'] }
  pair = await startTradingPair(
    () => [agent('echo', { model: 'builtin/echo' }), agent('broken', failing)],
    (home) => ({ dataDir: `${home}/buyer`, openai: { enabled: true } }),
  )
})
afterAll(() => pair?.stop())

/** A client of others. `stream` gives the whole text that came in pieces. */
type Kit = {
  whole(model: string, text: string): Promise<string>
  stream(model: string, text: string): Promise<string>
}
const say = (content: string) => [{ role: 'user' as const, content }]
const kits: [string, (baseURL: string) => Kit][] = [
  [
    'openai, chat',
    (baseURL) => {
      const { completions } = new OpenAI({ baseURL, apiKey: 'x' }).chat
      return {
        whole: async (model, text) =>
          (await completions.create({ model, messages: say(text) })).choices[0]!.message.content!,
        async stream(model, text) {
          const chunks = await Array.fromAsync(await completions.create({ model, messages: say(text), stream: true }))
          return chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')
        },
      }
    },
  ],
  [
    'openai, responses',
    (baseURL) => {
      const { responses } = new OpenAI({ baseURL, apiKey: 'x' })
      return {
        whole: async (model, input) => (await responses.create({ model, input })).output_text,
        async stream(model, input) {
          const events = await Array.fromAsync(await responses.create({ model, input, stream: true }))
          const failed = events.find(({ type }) => type === 'response.failed' || type === 'error')
          if (failed !== undefined) throw Object.assign(new Error(JSON.stringify(failed)), { event: failed })
          return events.map((event) => (event.type === 'response.output_text.delta' ? event.delta : '')).join('')
        },
      }
    },
  ],
  ['@ai-sdk/openai, responses', (baseURL) => aiKit((id) => createOpenAI({ baseURL, apiKey: 'x' })(id))],
  ['@ai-sdk/openai, chat', (baseURL) => aiKit((id) => createOpenAI({ baseURL, apiKey: 'x' }).chat(id))],
  [
    '@ai-sdk/openai-compatible',
    (baseURL) => aiKit((id) => createOpenAICompatible({ name: 'stoa', baseURL, apiKey: 'x' })(id)),
  ],
  [
    '@langchain/openai',
    (baseURL) => {
      // By default it tries seven times within two minutes, and does not read x-should-retry.
      const chat = (model: string) => new ChatOpenAI({ model, apiKey: 'x', maxRetries: 2, configuration: { baseURL } })
      return {
        whole: async (model, text) => String((await chat(model).invoke(text)).content),
        async stream(model, text) {
          const chunks = await Array.fromAsync(await chat(model).stream(text))
          return chunks.map(({ content }) => String(content)).join('')
        },
      }
    },
  ],
]

function aiKit(modelOf: (id: string) => Parameters<typeof generateText>[0]['model']): Kit {
  return {
    whole: async (id, prompt) => (await generateText({ model: modelOf(id), prompt })).text,
    async stream(id, prompt) {
      let text = ''
      for await (const part of streamText({ model: modelOf(id), prompt, onError: () => {} }).fullStream) {
        if (part.type === 'error') throw part.error
        if (part.type === 'text-delta') text += part.text
      }
      return text
    },
  }
}

/** What a client says of a failure, in one line. */
async function failure(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => expect.fail('it was answered'),
    (thrown: unknown) => thrown,
  )
  const last = RetryError.isInstance(error) ? error.lastError : error
  const body = APICallError.isInstance(last) ? last.responseBody : ''
  return `${(last as { status?: number }).status ?? ''} ${String(last)} ${JSON.stringify(last)} ${body}`
}

describe.each(kits)('%s', (name, kitAt) => {
  const ways = ['whole', 'stream'] as const

  test.each(ways)('%s: gets the answer, and pays once', async (way) => {
    const before = await ordersOf('echo')
    expect(await kitAt(`${pair.buyer.url}/v1`)[way](idOf('echo'), `${name}, ${way}`)).toBe(`${name}, ${way}`)
    expect(await ordersOf('echo')).toBe(before + 1)
  })

  test.each(ways)('%s: is told of a model that is not there', async (way) => {
    expect(await failure(kitAt(`${pair.buyer.url}/v1`)[way]('nobody', 'x'))).toMatch(/model_not_found/)
  })

  test.each(ways)('%s: is told of a run that was paid for and failed, and buys no other', async (way) => {
    const before = await ordersOf('broken')
    const text = await failure(kitAt(`${pair.buyer.url}/v1`)[way](idOf('broken'), `${name}, ${way}, fails`))
    expect(text).toMatch(/stoa order show/)
    expect(await ordersOf('broken')).toBe(before + 1)
  })

  test.each(ways)('%s: T35 sends again when its connection breaks, gets the answer, and pays once', async (way) => {
    const before = await ordersOf('echo')
    const door = await breakingDoor(pair.buyer.url, 'POST /v1/', 'HTTP/1.1 200')
    try {
      const text = `${name}, ${way}, with a break`
      expect(await kitAt(`${door.url}/v1`)[way](idOf('echo'), text)).toBe(text)
      expect(door.broken()).toBe(1)
      expect(await ordersOf('echo')).toBe(before + 1)
    } finally {
      await door.stop()
    }
  })
})
