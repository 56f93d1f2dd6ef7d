import { describe, expect, test } from 'vitest'
import { fakeDeps, fakeServer, remoteId, resultFixture } from '../../../test/support/fake-api.ts'
import { type Caller, permits, type Scope, scopes } from '../../schema/caller.ts'
import { apiOperations } from './operations.ts'

/** Tokens whose text is their scope. */
const deps = fakeDeps()
const identify = async (text: string): Promise<Caller | undefined> => {
  const scope = scopes.find((one) => one === text)
  return scope && { scope, tokenId: `a ${scope} token` }
}
const tokens = { ...deps.buyer.tokens, identify }
const rows = apiOperations(deps)
const { app } = fakeServer({ tokens })

const ask = (row: (typeof rows)[number], scope: Scope) =>
  app.inject({
    method: row.method,
    url: row.path.replace(/\{\w+\}/g, 'x'),
    headers: {
      authorization: `Bearer ${scope}`,
      ...(row.body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(row.body !== undefined && { payload: '{}' }),
  })

describe('D16 T12 every operation has a scope', () => {
  test.each(rows.filter(({ path }) => path !== '/events').map((row) => [row.method, row.path, row] as const))(
    '%s %s',
    async (method, _path, row) => {
      expect(scopes).toContain(row.scope)
      // Whatever changes something is no read.
      if (method !== 'GET') expect(row.scope).not.toBe('read')
      for (const scope of scopes) {
        const answer = await ask(row, scope)
        const isRefused = row.access !== 'health' && !permits(scope, row.scope)
        expect([scope, answer.body.includes('SCOPE_TOO_LOW",') && answer.statusCode === 403]).toEqual([
          scope,
          isRefused,
        ])
      }
    },
  )

  test('what decides over money, tokens and what this node sells is the operator’s', () => {
    const operators = [
      'abandonTransaction',
      'approve',
      'changeBudget',
      'createToken',
      'createWebhook',
      'decideApprovals',
    ]
    operators.push('deny', 'dismissAlarm', 'getConfig', 'getDiagnosis', 'giveFeedback', 'importAgent', 'listModels')
    operators.push('listTokens', 'listWebhooks', 'pauseAgent', 'registerAgent', 'registerOnchain', 'removeAgent')
    operators.push('removeImport', 'removeWebhook', 'replaceTransaction', 'resumeAgent', 'retryPayment', 'revokeToken')
    operators.push('refundPayment', 'sendFromWallet', 'inviteWorker', 'listWorkers', 'revokeWorker')
    operators.push('reloadAgents', 'testAgent', 'testDoors', 'testWebhook', 'tryAgent', 'updateAgent')
    const admin = rows.filter(({ scope }) => scope === 'admin').map(({ id }) => id)
    // What left this list would be open to every token that may execute.
    expect(admin).toEqual(expect.arrayContaining(operators))
  })
})

test('whoever spends is known by his token, through each door that spends', async () => {
  const seen: unknown[] = []
  const { orders, workflows } = deps.buyer
  const note = (caller: Caller | undefined) => void seen.push(caller)
  const server = fakeServer({
    tokens,
    execute: async ({ caller }) => {
      note(caller)
      return resultFixture()
    },
    orders: {
      create(order) {
        note(order.caller)
        return orders.create(order)
      },
      createOnWeb(order) {
        note(order.caller)
        return orders.createOnWeb(order)
      },
      execute(id, task, caller) {
        note(caller)
        return orders.execute(id, task, caller)
      },
      cancel: (id, caller) => orders.cancel(id, caller),
      get: (id, caller) => orders.get(id, caller),
      list: (query, caller) => orders.list(query, caller),
      settled: (id, options, caller) => orders.settled(id, options, caller),
    },
    workflows: {
      quote: (definition) => workflows.quote(definition),
      create(definition, caller) {
        note(caller)
        return workflows.create(definition, caller)
      },
      cancel: (id, caller) => workflows.cancel(id, caller),
      get: (id, caller) => workflows.get(id, caller),
      list: (query, caller) => workflows.list(query, caller),
      settled: (id, options, caller) => workflows.settled(id, options, caller),
    },
  })
  const post = (url: string, payload: object) =>
    server.app.inject({ method: 'POST', url, headers: { authorization: 'Bearer spend' }, payload })
  await post('/execute', { agent_id: remoteId, task: 'x' })
  await post(`/agents/${remoteId}/execute`, { task: 'x' })
  const order = (await post('/orders', { agent_id: remoteId, price: '1' })).json<{ id: string }>()
  await post(`/orders/${order.id}/execute`, { task: 'x' })
  await post('/workflows', { agent_ids: [remoteId], input: 'x' })
  expect(seen).toEqual(Array(5).fill({ scope: 'spend', tokenId: 'a spend token' }))
})

test('D48 alarms and transactions of the wallet are the node’s: a token that makes its own sees none', async () => {
  const waiting = { tx_hash: '0x1', purpose: 'send 5 USDC', network: 'eip155:84532', account_nonce: 1 }
  const { reputation } = deps
  const open = async () => [{ ...waiting, account: '0x2', to: '0x3' }]
  const server = fakeServer({
    tokens,
    reputation: { ...reputation, transactions: { ...reputation.transactions, open } },
  })
  const shown = async (url: string, scope: string) => {
    const answer = await server.app.inject({ url, headers: { authorization: `Bearer ${scope}` } })
    return answer.json<unknown[]>().length
  }
  for (const url of ['/alarms', '/transactions']) {
    expect(await Promise.all(scopes.map((scope) => shown(url, scope)))).toEqual([1, 0, 0, 1])
  }
})

test('whoever has a token calls off only what was ordered with it; the operator, everything', async () => {
  const post = (url: string, scope: string, payload: object, method: 'POST' | 'DELETE' = 'POST') =>
    app.inject({ method, url, headers: { authorization: `Bearer ${scope}` }, ...(method === 'POST' && { payload }) })
  const order = { agent_id: 'nobody', price: '1' }
  const placed = async (scope: string) => (await post('/orders', scope, order)).json<{ id: string }>().id
  const [own, operators] = [await placed('spend'), await placed('admin')]
  expect((await post(`/orders/${operators}`, 'spend', {}, 'DELETE')).json()).toMatchObject({ code: 'UNKNOWN_ORDER' })
  expect((await post(`/orders/${own}`, 'execute', {}, 'DELETE')).json()).toMatchObject({ code: 'UNKNOWN_ORDER' })
  expect((await post(`/orders/${own}`, 'spend', {}, 'DELETE')).json()).toMatchObject({ status: 'cancelled' })
  expect((await post(`/orders/${operators}`, 'admin', {}, 'DELETE')).json()).toMatchObject({ status: 'cancelled' })
})
