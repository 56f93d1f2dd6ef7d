import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import OpenAI from 'openai'
import { expect, onTestFinished, test } from 'vitest'
import { listedAgent } from '../../test/support/listings.ts'
import { systemClock } from '../lib/clock.ts'
import { silentLogger } from '../lib/logger.ts'
import { Meters } from '../lib/meters.ts'
import type { ExecutionResult } from '../schema/api.ts'
import type { ExecutionPayment } from '../schema/execution-payment.ts'
import { createDoor } from './door.ts'

/** A client of a door to an agent that is paid by its use. */
async function clientOf(use: Pick<ExecutionPayment, 'cut' | 'units'>): Promise<OpenAI> {
  const listing = listedAgent('writer', 0n)
  const payment = { amount: '0.000001', ...use }
  const result = { output: 'one two', payment, order_id: 'order 1' } as ExecutionResult
  const door = createDoor(
    { maxPriceAtomic: 1n },
    {
      ...{ clock: systemClock, logger: silentLogger, meters: new Meters(), perCall: () => 1n, isAllowed: () => true },
      search: { find: () => listing, page: () => ({ items: [listing], next: undefined }) },
      async execute({ onProgress }) {
        onProgress?.({ type: 'output', data: { text: 'one two' } })
        return result
      },
      again: async () => result,
      orderOf: async () => undefined,
      lastOrder: async () => undefined,
      ownToken: async () => ({ scope: 'spend', tokenId: 'door' }),
    },
  )
  const server = createServer((request, response) => {
    const caller = { scope: 'execute', tokenId: 'one' } as const
    void door.handle({ request, response, path: request.url!, caller, signal: new AbortController().signal })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    door.stop()
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return new OpenAI({ apiKey: 'any', baseURL: `http://127.0.0.1:${port}`, maxRetries: 0 })
}

test.each([
  ['cut where it was not paid for any more', true, 'length', 'incomplete', { reason: 'max_output_tokens' }],
  ['whole', undefined, 'stop', 'completed', null],
] as const)('T35 an answer that is %s says so in each form', async (_, cut, finish, status, details) => {
  const client = await clientOf(cut === undefined ? {} : { cut })
  const messages = [{ role: 'user' as const, content: 'write' }]
  const whole = await client.chat.completions.create({ model: 'writer', messages })
  expect(whole.choices[0]).toMatchObject({ finish_reason: finish, message: { content: 'one two' } })
  const finishes: (string | null)[] = []
  for await (const { choices } of await client.chat.completions.create({ model: 'writer', messages, stream: true }))
    for (const { finish_reason } of choices) if (finish_reason !== null) finishes.push(finish_reason)
  expect(finishes).toEqual([finish])

  const response = await client.responses.create({ model: 'writer', input: 'write' })
  expect(response).toMatchObject({ status, incomplete_details: details, output: [{ status }], output_text: 'one two' })
  const ends: object[] = []
  for await (const event of await client.responses.create({ model: 'writer', input: 'write', stream: true }))
    if (event.type === 'response.completed' || event.type === 'response.incomplete') ends.push(event)
  expect(ends).toMatchObject([{ type: `response.${status}`, response: { status, incomplete_details: details } }])
})

test.each([
  ['what was charged, if the seller counted', { input_tokens: 12, output_tokens: 700 }, 12, 700],
  ['an estimate of what the seller did not count', { output_tokens: 700, milliseconds: 5 }, 2, 700],
  ['an estimate of a call that was not metered', undefined, 2, 2],
] as const)('the usage of an answer is %s', async (_, units, read, written) => {
  const client = await clientOf(units === undefined ? {} : { units })
  const messages = [{ role: 'user' as const, content: 'write' }]
  const chat = { prompt_tokens: read, completion_tokens: written, total_tokens: read + written }
  const whole = await client.chat.completions.create({ model: 'writer', messages })
  expect(whole.usage).toMatchObject(chat)
  const usages: unknown[] = []
  const shown = { stream: true, stream_options: { include_usage: true } } as const
  for await (const { usage } of await client.chat.completions.create({ model: 'writer', messages, ...shown }))
    if (usage) usages.push(usage)
  expect(usages).toMatchObject([chat])
  const { usage } = await client.responses.create({ model: 'writer', input: 'write' })
  expect(usage).toMatchObject({ input_tokens: read, output_tokens: written, total_tokens: read + written })
})
