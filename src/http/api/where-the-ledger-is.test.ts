/** T21: an error of a database names it, with its user and host. Only who may do everything reads that, through each door. */
import { expect, test } from 'vitest'
import { fakeDeps, fakeServer, remoteId, statusFixture } from '../../../test/support/fake-api.ts'
import type { Turn } from '../../a2a/executor.ts'
import { marketWork } from '../../a2a/market-work.ts'
import { orderError } from '../../buying/run-order.ts'
import { Feed } from '../../lib/feed.ts'
import { silentLogger } from '../../lib/logger.ts'
import { marketCall } from '../../mcp/market-call.ts'
import { type Caller, type Scope, scopes } from '../../schema/caller.ts'
import type { NodeEvents } from '../../schema/events.ts'
import { StoreError } from '../../store/store-error.ts'
import type { MarketTools } from '../../tools/tools.ts'

const PLACE = 'the database "books" of stoa at db.internal:5432'
const away = () => new StoreError('STORE_AWAY', `${PLACE} does not answer: start it`)
const identify = async (text: string): Promise<Caller | undefined> => {
  const scope = scopes.find((one) => one === text)
  return scope && { scope, tokenId: `a ${scope} token` }
}
const lesser = scopes.filter((scope) => scope !== 'admin')

function doors() {
  const deps = fakeDeps()
  const failing = async (): Promise<never> => {
    throw away()
  }
  const feed = new Feed<NodeEvents>({ life: 'test' })
  const database = { state: 'away', reason: away().message } as const
  const trading = { state: 'stopped', code: 'STORE_IN_USE', reason: `others have taken over in ${PLACE}` } as const
  const status = async () => ({ ...statusFixture, database, trading, refused_change: `${PLACE} has a full disk` })
  const server = fakeServer({
    ...{ tokens: { ...deps.buyer.tokens, identify }, execute: failing, events: feed },
    orders: { ...deps.buyer.orders, list: failing },
    node: { ...deps.node, status },
  })
  const tools: MarketTools = { call: failing }
  const headers = (scope: Scope) => ({ authorization: `Bearer ${scope}`, 'content-type': 'application/json' })
  return {
    async said(scope: Scope): Promise<string[]> {
      const caller = (await identify(scope))!
      const { signal } = new AbortController()
      const turn = { input: JSON.stringify({ skill: 'list_receipts' }), caller, messageId: 'm', running: {}, signal }
      const call = marketCall(tools, { logger: silentLogger, stopping: signal })
      const get = async (url: string) => (await server.app.inject({ url, headers: headers(scope) })).body
      const payload = { agent_id: remoteId, task: 'x' }
      const answers = [
        ...(await Promise.all(['/orders', '/status'].map(get))),
        JSON.stringify(await marketWork(tools)(turn as unknown as Turn, { working: () => {} })),
        JSON.stringify(await call('list_receipts', {}, { caller, signal, progress: () => {} })),
      ]
      if (scope === 'read') return answers
      const bought = await server.app.inject({ method: 'POST', url: '/execute', headers: headers(scope), payload })
      return [...answers, bought.body]
    },
    async told(scope: Scope): Promise<string> {
      const answered = server.app.inject({ url: '/events?types=status', headers: headers(scope) })
      await new Promise((resolve) => setImmediate(resolve))
      feed.publish('status', 'status', status)
      feed.close()
      return (await answered).body
    },
  }
}

test.each(lesser)('T21 a token of %s does not read where the ledger is', async (scope) => {
  const said = await doors().said(scope)
  for (const answer of said) {
    expect(answer).not.toContain('db.internal')
    expect(answer).toMatch(/STORE_AWAY|"away"/)
    expect(answer).toContain('stoa doctor')
  }
  const told = await doors().told(scope)
  expect(told).toContain('STORE_IN_USE')
  expect(told).not.toContain('db.internal')
})

test('the operator does', async () => {
  for (const answer of await doors().said('admin')) expect(answer).toContain('db.internal')
})

test('T21 an order that failed by the ledger does not say where it is', () => {
  expect(orderError(away())).toMatchObject({ code: 'STORE_AWAY', message: expect.not.stringContaining('db.internal') })
})
