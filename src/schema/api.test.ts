import { expect, test } from 'vitest'
import * as z from 'zod'
import { AgentDefinition } from './agent.ts'
import { RegisterAgent } from './api.ts'
import { Execute, ExecuteAgent } from './execute.ts'
import { TASK_BYTES_MAX } from './limits.ts'
import { CreateOrder } from './order.ts'

const issuesOf = (schema: z.ZodType, value: unknown) =>
  z.safeDecode(schema, value as never).error?.issues.map(({ path, code }) => [path.join('.'), code]) ?? []

test.each([
  { agent_id: 'a', task: 'go' },
  { agent_id: 'a', input: 'go' },
  { agent_id: 'a', input: 'go', task: 'go' },
])('D17 reads the task of %j', (body) => {
  const { agent_id: _, ...withoutId } = body
  expect(z.decode(Execute, body)).toEqual({ agent_id: 'a', input: 'go' })
  expect(z.decode(ExecuteAgent, withoutId)).toEqual({ agent_id: undefined, input: 'go' })
})

test('reads both spellings of agent_id in /execute and in orders, and a price as text or number', () => {
  expect(z.decode(Execute, { agentId: 'a', task: 'go' })).toEqual({ agent_id: 'a', input: 'go' })
  for (const price of ['0.05', 0.05]) {
    expect(z.decode(CreateOrder, { agentId: 'a', price })).toEqual({ agent_id: 'a', price: 50_000n })
  }
  expect(issuesOf(CreateOrder, { price: 1 })).toEqual([['agent_id', 'custom']])
  expect(issuesOf(CreateOrder, { agent_id: 'a', agentId: 'b', price: 1 })).toEqual([['agentId', 'custom']])
})

test.each(['0.25', 0.25, '25e-2'])('reads max_price %j exactly', (max_price) => {
  expect(z.decode(Execute, { agent_id: 'a', task: 'go', max_price })).toMatchObject({ maxPriceAtomic: 250_000n })
})

test.each([
  [{ agent_id: 'a' }, 'task'],
  [{ agent_id: 'a', task: '' }, 'task'],
  [{ agent_id: 'a', task: 'go', input: 'stop' }, 'input'],
  [{ agent_id: 'a', task: '\ud800' }, 'task'],
  [{ agent_id: 'a', task: null }, 'task'],
  [{ agent_id: '', task: 'go' }, 'agent_id'],
  [{ task: 'go' }, 'agent_id'],
  [{ agent_id: 'a', task: 'go', max_price: '0.0000001' }, 'max_price'],
  [{ agent_id: 'a', task: 'go', max_price: -1 }, 'max_price'],
  [{ agent_id: 'a', task: 'go', max_price: 'NaN' }, 'max_price'],
])('T8 T18 refuses %j for its %s', (body, path) => {
  expect(issuesOf(Execute, body).map(([at]) => at)).toContain(path)
})

test('refuses unknown fields where money is spent, because they may be mistyped limits', () => {
  expect(issuesOf(Execute, { agent_id: 'a', task: 'go', maxPrice: 1 })).toEqual([['', 'unrecognized_keys']])
})

test('T12 refuses fields of an agent that name a program or a key of this machine', () => {
  const agent = { name: 'A', description: 'B', price: 0 }
  expect(z.decode(RegisterAgent, agent)).toEqual({ ...agent, price: 0n })
  for (const extra of [{ command: ['sh'] }, { api_key_env: 'X' }, { output_bytes_max: 1 }, { base_url: 'http://x' }]) {
    expect(issuesOf(RegisterAgent, { ...agent, ...extra })).toEqual([['', 'unrecognized_keys']])
  }
})

test('T23 the longest result fits into one frame as base64, beside its receipt', () => {
  const agent = { name: 'A', description: 'B', price: 0 }
  const longest = 4 * 1024 * 1024
  expect(AgentDefinition.safeParse({ ...agent, output_bytes_max: longest }).success).toBe(true)
  expect(AgentDefinition.safeParse({ ...agent, output_bytes_max: longest + 1 }).success).toBe(false)
  expect(8 * 1024 * 1024 - Math.ceil(longest / 3) * 4).toBeGreaterThanOrEqual(1024 * 1024)
})

test('D24 the longest task fits into one frame as base64, beside a payment', () => {
  const base64 = (TASK_BYTES_MAX / 3) * 4
  expect(Number.isInteger(base64)).toBe(true)
  expect(8 * 1024 * 1024 - base64).toBeGreaterThanOrEqual(4096)
})
