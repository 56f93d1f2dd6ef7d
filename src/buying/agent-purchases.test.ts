import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { listingRecord } from '../../test/support/listings.ts'
import type { AgentPurchase } from '../agents/agent-purchase.ts'
import type { RunOrigin } from '../agents/runtime.ts'
import { Changes } from '../lib/changes.ts'
import { createCatalog } from '../listings/catalog.ts'
import type { ExecutionResult } from '../schema/api.ts'
import type { Order, StoredReservation } from '../store/purchases.ts'
import { createAgentPurchases } from './agent-purchases.ts'
import type { ExecuteRequest } from './execute.ts'

type AgentPurchasesDeps = Parameters<typeof createAgentPurchases>[0]
const DAY_MS = 24 * 60 * 60 * 1000
const result = (output: string) => ({ output }) as ExecutionResult
const origin: RunOrigin = { id: 'payment', isPaid: true, hops: 0 }

type Before = { status: Order['status']; state?: StoredReservation['state']; createdAt?: number; refundTx?: '0x1' }

/** Purchases after an order of the same run, which ended as it says. */
function purchases(before?: Before, more: Partial<AgentPurchasesDeps> = {}) {
  const clock = new HandClock(10 * DAY_MS)
  const asked: ExecuteRequest[] = []
  const order = before && ({ id: 'before', createdAt: clock.now(), ...before } as Order)
  const record = listingRecord('12D3KooWGXd3bVkfFKJ4FnLPVpBqVsnHJCrnTqPCZKD5XQ9R4kbP', 'inner', 1)
  const replica = { all: () => [record], get: () => record, own: () => [], count: () => 1 }
  const listing = createCatalog({ replica, sellerId: '12D3KooWMe', network: 'eip155:84532' }).resolve(record.id)!
  const deps: AgentPurchasesDeps = {
    clock,
    catalog: { resolve: () => listing },
    purchases: {
      order: async () => order,
      orderOfRun: async () => order,
      fruitlessFor: async () => 0,
      unearnedFor: async () => 0,
      reservationOf: async () => (before?.state === undefined ? undefined : (before as unknown as StoredReservation)),
    },
    changes: new Changes(),
    ownId: (name) => name,
    async execute(request) {
      asked.push(request)
      return result('bought')
    },
    again: async () => result('before'),
    look: async () => {},
    cancel: async () => {},
    ...more,
  }
  const named = { agentId: listing.id, peerId: listing.seller_id, payTo: listing.pay_to, network: listing.network }
  const { signal } = new AbortController()
  const made = createAgentPurchases(deps)
  const buy = (changes: Partial<AgentPurchase['call']> = {}) =>
    made.buy({
      ...{ name: 'front', named, maxPrice: 5n },
      call: { input: 'task', callerId: 'did:peer:a', history: [], signal, origin, ...changes },
    })
  return { asked, buy, isAhead: () => made.isAhead('front') }
}

test.each<[string, Before | undefined, string]>([
  ['the first time', undefined, 'bought'],
  ['after one that brought its result', { status: 'completed', state: 'spent' }, 'before'],
  ['while one is under way', { status: 'executing', state: 'reserved' }, 'before'],
  ['after one that was not signed for', { status: 'failed' }, 'bought'],
  ['after one that can never be charged', { status: 'failed', state: 'released' }, 'bought'],
  ['after one that was paid back', { status: 'failed', state: 'spent', refundTx: '0x1' }, 'bought'],
])('D38 a run buys %s: %j gives %s', async (_, before, output) => {
  expect(await purchases(before).buy()).toBe(output)
})

test.each<[string, Before, RegExp]>([
  ['may still be charged', { status: 'failed', state: 'reserved' }, /again once that payment has expired/],
  ['was charged', { status: 'failed', state: 'spent' }, /was paid and gave no result/],
])('D33 a run whose purchase %s buys no other', async (_, before, message) => {
  const { buy, asked } = purchases(before)
  await expect(buy()).rejects.toMatchObject({ code: 'AGENT_FAILED', message: expect.stringMatching(message) })
  expect(asked).toEqual([])
})

test('D38 a payment names its run for ever, an id of the caller for a day', async () => {
  const before: Before = { status: 'completed', state: 'spent', createdAt: 8 * DAY_MS }
  expect(await purchases(before).buy()).toBe('before')
  expect(await purchases(before).buy({ origin: { ...origin, isPaid: false } })).toBe('bought')
})

const idle = {
  order: async () => undefined,
  orderOfRun: async () => undefined,
  reservationOf: async () => undefined,
  fruitlessFor: async () => 0,
  unearnedFor: async () => 0,
}

test('T6 a seller that takes payments and gives nothing gets no more', async () => {
  const counted = {
    order: async () => undefined,
    orderOfRun: async () => undefined,
    reservationOf: async () => undefined,
    unearnedFor: async () => 0,
  }
  const { buy, asked } = purchases(undefined, { purchases: { ...counted, fruitlessFor: async () => 32 } })
  await expect(buy()).rejects.toMatchObject({ message: expect.stringMatching(/too many purchases/) })
  expect(asked).toEqual([])
})

test('T6 who buys much for runs that are not paid for has them paid first; the purchase names the payment of its run', async () => {
  const unearned = (count: number) => ({
    purchases: { ...idle, unearnedFor: async () => count },
  })
  const isAhead = [7, 8].map((count) => purchases(undefined, unearned(count)).isAhead())
  expect(await Promise.all(isAhead)).toEqual([false, true])
  const { buy, asked } = purchases()
  await buy()
  await buy({ origin: { ...origin, isPaid: false } })
  expect(asked.map(({ boughtFor }) => boughtFor?.paymentId)).toEqual(['payment', undefined])
})

test('D48 who has a run for nothing pays for what it buys; for a paid one the operator does', async () => {
  const { buy, asked } = purchases()
  await buy({ callerId: 'local:token' })
  await buy({ callerId: 'local:token', origin: { ...origin, isPaid: false } })
  await buy({ callerId: 'a2a:token/conversation', origin: { ...origin, isPaid: false } })
  expect(asked.map(({ caller }) => caller?.tokenId)).toEqual([undefined, 'token', 'token'])
})

test('agents that buy for one another end at a number of hops, and say how many they are', async () => {
  const { buy, asked } = purchases()
  await buy({ origin: { ...origin, hops: 3 } })
  expect(asked[0]?.hops).toBe(4)
  await expect(buy({ origin: { ...origin, hops: 4 } })).rejects.toMatchObject({ code: 'AGENT_NOT_RUNNABLE' })
})

test('two calls of one run buy one after the other, never both at once', async () => {
  const { promise, resolve } = Promise.withResolvers<ExecutionResult>()
  let atOnce = 0
  let most = 0
  const { buy } = purchases(undefined, {
    async execute() {
      most = Math.max(most, ++atOnce)
      const given = await promise
      atOnce--
      return given
    },
  })
  const both = [buy(), buy()]
  await Promise.resolve()
  resolve(result('x'))
  await Promise.all(both)
  expect(most).toBe(1)
})
