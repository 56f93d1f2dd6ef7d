/** T25, T35: the door of two processes that share a ledger, each with a real buyer, at one seller. */
import { randomBytes } from 'node:crypto'
import { test as base, expect, onTestFinished } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { agentId } from '../../test/support/payments.ts'
import { freshRunTime } from '../../test/support/run-time.ts'
import { TestBuyer, type TestBuyerOptions } from '../../test/support/test-buyer.ts'
import { TestSeller } from '../../test/support/x402-seller.ts'
import { AgentError } from '../agents/runtime.ts'
import { executeAgain } from '../buying/execute-again.ts'
import { createTokens } from '../buying/tokens.ts'
import type { Caller } from '../schema/caller.ts'
import type { OrderRecord } from '../schema/order.ts'
import { openDatabase } from '../store/database.ts'
import { createIdempotencyKeys } from '../store/idempotency.ts'
import { createTokenStore } from '../store/tokens.ts'
import { KnownAgents } from './known-agents.ts'
import type { DoorRequest } from './request.ts'
import type { RequestKeys } from './request-keys.ts'
import { answerTo, type ServeDeps, serve } from './serve.ts'

const OWN = 'own'
const keyless: RequestKeys = { prefix: 'openai:x:', answersMs: 30_000 }
const given: RequestKeys = {
  ...{ prefix: 'openai:x:', answersMs: Number.POSITIVE_INFINITY },
  given: { key: 'openai:x:y', name: { key: 'openai x', hash: Buffer.alloc(32) } },
}

const test = base.extend('fleet', async () => {
  const clock = new HandClock()
  const seller = await new TestSeller({ clock }).start()
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(async () => {
    await seller.stop()
    await database.close()
  })
  const tokens = createTokens({ clock, store: createTokenStore(database), random: randomBytes })
  const caller = await tokens.ofPart({ id: 't', name: 'door', perDay: 1_000_000n })
  const processes = [0, 1].map((at) => {
    const open: TestBuyerOptions['open'] = (_, protocol) => seller.open(`buyer ${at}`, protocol)
    const buyer = new TestBuyer({ clock, database, open })
    buyer.list({ id: OWN, price: 0n, price_atomic: '0', local: true })
    buyer.deps.tokens = tokens
    buyer.deps.runOwn = () => Promise.reject(new AgentError('AGENT_FAILED', 'it fails'))
    return processOf(buyer, caller)
  })
  return { seller, one: processes[0]!, other: processes[1]! }
})

type Watched = (real: ServeDeps) => Partial<ServeDeps>

/** What the door of one process does with a request of the operator. */
function processOf(buyer: TestBuyer, caller: Caller) {
  const { deps } = buyer
  const keys = createIdempotencyKeys(buyer.database, freshRunTime(buyer.clock))
  const search = { page: () => ({ items: [], next: undefined }), find: (name: string) => deps.catalog.resolve(name) }
  async function recordOf(id: string): Promise<OrderRecord> {
    const { agentId: agent_id, updatedAt, status, error, cancelRequested } = (await buyer.purchases.order(id))!
    const payment = await buyer.purchases.reservationOf(id)
    const updated_at = new Date(updatedAt).toISOString()
    const record = { id, agent_id, status, updated_at, error, cancel_requested: cancelRequested, payment }
    return record as unknown as OrderRecord
  }
  const real: ServeDeps = {
    ...{ search, known: new KnownAgents({ search, clock: buyer.clock }) },
    ...{ perCall: () => 100_000n, isAllowed: () => true, isGiven: () => false },
    execute: (request) => buyer.execute(request),
    again: (id, waiting) => executeAgain(id, waiting, deps),
    async orderOf(key) {
      const row = buyer.database.prepare('SELECT target FROM idempotency_keys WHERE key = ?').get(key)
      return row && recordOf(row.target as string)
    },
    async lastOrder(prefix, { tokenId, isOperator }) {
      const found = await keys.last(prefix, { tokenId, orOperator: isOperator })
      return found && { key: found.key, order: await recordOf(found.orderId), madeMsAgo: keys.now() - found.at }
    },
  }
  const following = { onAttempt() {}, onBound() {}, onOutput() {}, onTaken() {} }
  return (
    models: readonly string[],
    of: RequestKeys,
    watched: Watched = () => ({}),
    { signal } = new AbortController(),
  ) => {
    const request = { models, maxPrice: 50_000n, task: 'x', stream: false } as unknown as DoorRequest
    const call = {
      request,
      keys: of,
      caller,
      isOperator: true,
      autoMaxPrice: 0n,
      now: buyer.clock.now(),
      following,
      signal,
    }
    return serve(call, { ...real, ...watched(real) }).then(
      ({ result: { output } }) => output,
      (error: unknown) => answerTo(error)?.body.error.code ?? `${error}`,
    )
  }
}

const kinds = [
  ['without a key', keyless],
  ['with an Idempotency-Key', given],
] as const

test.for(kinds)(
  'T25: an own agent of the operator fails at both processes, %s: one of them buys',
  async ([, keys], { fleet }) => {
    const { seller, one, other } = fleet
    let second: Promise<string> | undefined
    const first = await one([OWN, agentId], keys, (real) => ({
      // Its own agent has just failed. The other process gets the same request before the next agent is asked.
      async orderOf(...asked) {
        second ??= other([OWN, agentId], keys)
        await second
        return real.orderOf(...asked)
      },
    }))
    expect(seller.runs).toHaveLength(1)
    expect([first, await second]).toEqual(['re: x', 're: x'])
  },
)

test.for(kinds)(
  'T25: the client of one process leaves unpaid and comes again while the other begins, %s: one buys',
  async ([, keys], { fleet }) => {
    const { seller, one, other } = fleet
    let again: Promise<string> | undefined
    const second = await other([agentId], keys, (real) => ({
      async lastOrder(...asked) {
        const before = await real.lastOrder(...asked)
        if (again !== undefined) return before
        const leaving = new AbortController()
        const execute: ServeDeps['execute'] = (request) =>
          real.execute({ ...request, onProgress: () => leaving.abort(new Error('it has left')) })
        expect(await one([agentId], keys, () => ({ execute }), leaving)).toBe('canceled')
        again = one([agentId], keys)
        await again
        return before
      },
    }))
    expect(seller.runs).toHaveLength(1)
    expect([await again, second]).toEqual(['re: x', 're: x'])
  },
)
