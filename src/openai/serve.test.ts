import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { listedAgent } from '../../test/support/listings.ts'
import { overBudget } from '../buying/budget.ts'
import { CodedError } from '../lib/errors.ts'
import { MarketError } from '../listings/market-error.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { ExecutionResult } from '../schema/api.ts'
import type { OrderRecord } from '../schema/order.ts'
import { KnownAgents } from './known-agents.ts'
import type { DoorRequest } from './request.ts'
import { type RequestKeys, usedByAnother } from './request-keys.ts'
import { answerTo, type ServeDeps, serve } from './serve.ts'

const NOW = Date.UTC(2026, 0, 1)
const keys: RequestKeys = { prefix: 'openai:x:', answersMs: 30_000 }
const unused: ServeDeps = {
  known: new KnownAgents({
    search: { page: () => ({ items: [listedAgent('one', 0n), listedAgent('two', 0n)], next: undefined }) },
    clock: new HandClock(),
  }),
  search: { find: () => undefined },
  perCall: () => 10n,
  isAllowed: () => true,
  execute: () => expect.fail('not bought'),
  again: async () => 'given up',
  orderOf: async () => undefined,
  lastOrder: async () => undefined,
  isGiven: () => true,
}

type Asking = { of?: RequestKeys; isOperator?: boolean; maxPrice?: bigint | undefined; signal?: AbortSignal }

function ask(deps: Partial<ServeDeps>, asking: Asking = {}) {
  const { of = keys, isOperator = false, maxPrice, signal = new AbortController().signal } = asking
  let isTaken = false
  const following = { onAttempt() {}, onBound() {}, onOutput() {}, onTaken: () => (isTaken = true) }
  const request = { models: ['tag:any'], maxPrice, task: 'x', stream: false } as unknown as DoorRequest
  const caller = { scope: 'spend', tokenId: 't' } as const
  const call = { request, caller, isOperator, autoMaxPrice: 10n, keys: of, now: NOW, following, signal }
  return serve(call, { ...unused, ...deps }).then(
    ({ result: { output } }) => ({ output, isTaken, error: undefined, message: undefined }),
    (error: unknown) => {
      const { code, message } = answerTo(error)?.body.error ?? {}
      return { output: undefined, isTaken, error: code, message }
    },
  )
}

test('an agent that was free when the market was read, and costs now, is not followed by another one after the signature', async () => {
  const asked: string[] = []
  const { error } = await ask({
    async execute({ agentId, onSigning }) {
      asked.push(agentId)
      onSigning?.()
      throw new PeerError('OVERLOADED', 'no room')
    },
    orderOf: async () => ({ id: 'o', payment: {} }) as unknown as OrderRecord,
  })
  expect(asked).toHaveLength(1)
  expect(error).toBe('paid_but_failed')
})

test.each([
  ['a limit that the client has set', { price: 5n, isOperator: true }, undefined],
  ['the limit of a name alone', { price: undefined, isOperator: true }, /openai_max_price/],
  ['the budget of the door', { over: 'token day', isOperator: true }, /openai_daily_budget/],
  ['the budget of the node', { over: 'day', isOperator: true }, undefined],
  ['the budget of a token', { over: 'token day', isOperator: false }, undefined],
] as const)('a refusal by %s names the setting of the door only if it is one', async (_, asked, hint) => {
  const over = 'over' in asked ? asked.over : undefined
  const refused = over
    ? overBudget(10n, { over, spent: 5n, max: 10n }, '2026-01-01')
    : new MarketError('OVER_PRICE', 'one costs 0.00001 USDC, this call allows 0.000005')
  const { message } = await ask(
    { execute: () => Promise.reject(refused) },
    { isOperator: asked.isOperator, maxPrice: 'price' in asked ? asked.price : undefined },
  )
  expect(message).toContain(refused.message)
  if (hint === undefined) expect(message).not.toMatch(/openai_/)
  else expect(message).toMatch(hint)
})

const result = (output: string) => ({ output, payment: null }) as ExecutionResult
const paid = { payment: {} }
const sentAgain: RequestKeys = { ...keys, answersMs: 600_000 }
const given: RequestKeys = {
  ...{ prefix: 'openai:x:', answersMs: Number.POSITIVE_INFINITY },
  given: { key: 'openai:x:2', name: { key: 'openai x', hash: Buffer.alloc(32) } },
}

test.each<[string, object, number, RequestKeys, 'the order' | 'a new one']>([
  ['runs, for however long', { status: 'executing', ...paid }, 3_600_000, keys, 'the order'],
  ['waits for its operator', { status: 'pending' }, 3_600_000, keys, 'the order'],
  ['has just ended', { status: 'completed', ...paid }, 29_999, keys, 'the order'],
  ['ended a while ago', { status: 'completed', ...paid }, 30_000, keys, 'a new one'],
  ['ended a while ago, for an SDK that counts', { status: 'completed', ...paid }, 599_999, sentAgain, 'the order'],
  ['ended long ago, for an SDK that counts', { status: 'completed', ...paid }, 600_000, sentAgain, 'a new one'],
  ['ended yesterday, with a key', { status: 'completed', ...paid }, 80_000_000, given, 'the order'],
  ['was paid for and failed', { status: 'failed', ...paid }, 299_999, keys, 'the order'],
  ['was paid for and canceled', { status: 'cancelled', ...paid }, 299_999, keys, 'the order'],
  ['was paid for and failed long ago', { status: 'failed', ...paid }, 300_000, keys, 'a new one'],
  ['failed and cost nothing', { status: 'failed' }, 1, keys, 'a new one'],
  ['failed and cost nothing, with a key', { status: 'failed' }, 1, given, 'a new one'],
])('T35 a request whose last order in the ledger %s', async (_, order, agoMs, of, answered) => {
  const bought: unknown[] = []
  const { output, isTaken } = await ask(
    {
      async lastOrder(prefix, { tokenId }) {
        expect([prefix, tokenId]).toEqual(['openai:x:', 't'])
        const updated_at = new Date(NOW - agoMs).toISOString()
        const found = { id: 'o', agent_id: 'gone', updated_at, ...order } as OrderRecord
        return { key: 'openai:x:2.3', order: found, madeMsAgo: agoMs + 1 }
      },
      again: async (id) => result(id === 'o' ? 'the order' : id),
      async execute({ idempotencyKey }) {
        bought.push(idempotencyKey)
        return result('a new one')
      },
    },
    { of },
  )
  expect(output).toBe(answered)
  expect(isTaken).toBe(answered === 'the order')
  // An attempt that is over keeps its key. What was bought begins the next ones.
  const next = 'payment' in order ? 'openai:x:3.1' : 'openai:x:2.4'
  expect(bought).toEqual(answered === 'the order' ? [] : [next])
})

test.each([
  ['answers for five minutes', 299_999, 'the order'],
  ['is bought again later', 300_000, 'a new one'],
])('T35 a result that no client has got, as far as this process knows, %s', async (_, agoMs, answered) => {
  const updated_at = new Date(NOW - agoMs).toISOString()
  const order = { id: 'o', agent_id: 'gone', status: 'completed', updated_at, ...paid } as OrderRecord
  const lastOrder = async () => ({ key: 'openai:x:1.1', order, madeMsAgo: agoMs + 1 })
  const again = async () => result('the order')
  const deps = { lastOrder, again, isGiven: () => false, execute: async () => result('a new one') }
  expect((await ask(deps)).output).toBe(answered)
})

test.each([
  ['that was paid for and failed', 'failed', 299_999],
  ['whose result was given', 'completed', 29_999],
])(
  'T35 T16 a request %s is not bought again because the clock was set forward by a day',
  async (_, status, madeMsAgo) => {
    const updated_at = new Date(NOW - 86_400_000).toISOString()
    const order = { id: 'o', agent_id: 'gone', status, updated_at, ...paid } as OrderRecord
    const lastOrder = async () => ({ key: 'openai:x:1.1', order, madeMsAgo })
    expect((await ask({ lastOrder, again: async () => result('the order') })).output).toBe('the order')
  },
)

/** An order that another process executes. */
const executing = {
  ...{ id: 'o', agent_id: 'gone', status: 'executing' },
  updated_at: new Date(NOW).toISOString(),
} as OrderRecord

test('T25: a client that waits for an order of another process, whose own client has left, gets one of its own', async () => {
  const bought: unknown[] = []
  const execute: ServeDeps['execute'] = async ({ idempotencyKey }) => {
    bought.push(idempotencyKey)
    return result('a new one')
  }
  const again = async () => 'given up' as const
  const deps = { lastOrder: async () => ({ key: 'openai:x:2.3', order: executing, madeMsAgo: 1 }), again, execute }
  expect(await ask(deps)).toMatchObject({ output: 'a new one', error: undefined })
  // Its key is free again. Whoever else waits for it goes on with the same one.
  expect(bought).toEqual(['openai:x:2.3'])
  expect(await ask(deps, { signal: AbortSignal.abort(new Error('it has left')) })).toMatchObject({ error: 'canceled' })
  expect(bought).toHaveLength(1)
})

test('T35: of two processes that ask other agents for one request, the second takes up the order of the first', async () => {
  const asked: unknown[] = []
  const lastOrder = async () =>
    asked.length === 0 ? undefined : { key: 'openai:x:1.1', order: executing, madeMsAgo: 1 }
  const execute: ServeDeps['execute'] = async ({ idempotencyKey }) => {
    asked.push(idempotencyKey)
    throw usedByAnother()
  }
  const again = async () => result('the order')
  expect(await ask({ lastOrder, execute, again })).toMatchObject({ output: 'the order', isTaken: true })
  expect(asked).toEqual(['openai:x:1.1'])
  asked.length = 0
  const none = async () => undefined
  expect(await ask({ lastOrder: none, execute, again })).toMatchObject({ error: 'idempotency_conflict' })
  expect(asked).toHaveLength(2)
})

test.each([
  ['CHANNEL_NEEDED', undefined, 2],
  ['CHANNEL_NEEDED', { payment: {} }, 1],
  ['TASK_REFUSED', undefined, 1],
])('after %s without a charge another agent is asked, if nothing was signed: %j', async (code, order, asked) => {
  const agents: string[] = []
  const { output } = await ask({
    async execute({ agentId, onSigning }) {
      agents.push(agentId)
      if (agents.length > 1) return result('the second')
      onSigning?.()
      throw new CodedError(code, 'this agent is sold on payment channels only; nothing was charged')
    },
    orderOf: async () => ({ id: 'o', ...order }) as OrderRecord,
  })
  expect([agents.length, output]).toEqual([asked, asked === 2 ? 'the second' : undefined])
})

test('a key that a client has given to another request is refused', async () => {
  const order = { id: 'o', agent_id: 'a', status: 'completed', updated_at: new Date(NOW).toISOString() } as OrderRecord
  const lastOrder = async () => ({ key: 'openai:x:other.1', order, madeMsAgo: 1 })
  expect(await ask({ lastOrder }, { of: given })).toMatchObject({ error: 'idempotency_conflict' })
  const execute = async () => result('a new one')
  expect(await ask({ lastOrder: async () => undefined, execute }, { of: given })).toMatchObject({ output: 'a new one' })
})
