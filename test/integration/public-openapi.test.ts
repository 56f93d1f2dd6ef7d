/** The OpenAPI document of the public listener, judged and used by tools of others. */
import { Validator } from '@seriousme/openapi-schema-validator'
import axios from 'axios'
import { OpenAPIClientAxios } from 'openapi-client-axios'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { call } from '../support/api-calls.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'

let seller: TestNode
const ids: Record<string, string> = {}

beforeAll(async () => {
  seller = await startTestNode({ public: { port: 0 } })
  for (const [name, price] of [
    ['paid', 20_500n],
    ['free', 0n],
    ['paused', 1n],
  ] as const) {
    const definition = { name, description: `The ${name} one`, price, tags: ['text'], model: 'builtin/echo' }
    ids[name] = (await seller.node.registerAgent(definition, { persist: false })).id
  }
  await call(seller.url, `/agents/${ids.paused}/pause`, { method: 'POST' })
})
afterAll(() => seller?.stop())

const fetched = async () => (await fetch(`${seller.publicUrl}/openapi.json`)).json() as Promise<Record<string, never>>

test('it is valid, and has a path for each agent that can be bought now, with its price', async () => {
  const document = await fetched()
  expect(await new Validator().validate(structuredClone(document))).toEqual({ valid: true })
  const { paths, servers } = document as unknown as { paths: Record<string, { post: object }>; servers: object[] }
  expect(servers).toEqual([{ url: seller.publicUrl }])
  const of = (id: string) => [`/x402/${id}`, `/x402/${id}/stream`]
  expect(new Set(Object.keys(paths))).toEqual(new Set(['/x402', ...of(ids.paid!), ...of(ids.free!)]))
  const price = { mode: 'fixed', currency: 'USD', amount: '0.0205' }
  expect(paths[`/x402/${ids.paid}`]!.post).toMatchObject({
    ...{ summary: 'paid', description: 'The paid one', 'x-payment-info': { price } },
    responses: { 402: expect.anything() },
  })
  expect(paths[`/x402/${ids.free}`]!.post).not.toHaveProperty('x-payment-info')
})

test('a client that is made of it calls a free agent, and is asked to pay by another', async () => {
  const client = await new OpenAPIClientAxios({ definition: (await fetched()) as never }).getClient()
  const { data } = await client[`run_${ids.free}`]!({}, { task: 'hello' })
  expect(data).toEqual({ result: 'hello' })
  const asked = await client[`run_${ids.paid}`]!({}, { task: 'hello' }).catch((error: unknown) => error)
  expect(axios.isAxiosError(asked) && asked.response?.status).toBe(402)
})
