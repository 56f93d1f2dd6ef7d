/** D37, T24 on real nodes: a node on test money beside a seller that takes real money, through every door. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { a2aClient, asTask, send, stateOf } from '../support/a2a-client.ts'
import { ask, call, discovered } from '../support/api-calls.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

describe.each([
  ['test', 'eip155:84532', 'eip155:8453'],
  ['live', 'eip155:8453', 'eip155:84532'],
] as const)('D37: a node on %s money', (kind, network, foreign) => {
  let seller: TestNode
  let buyer: TestNode
  let agentId: string
  let freeId: string

  beforeAll(async () => {
    seller = await startTestNode({ network: foreign })
    const echo = { name: 'foreign echo', description: 'Repeats the task.', model: 'builtin/echo', tags: ['text'] }
    agentId = (await seller.node.registerAgent({ ...echo, price: 10_000n }, { persist: false })).id
    freeId = (await seller.node.registerAgent({ ...echo, name: 'free echo', price: 0n }, { persist: false })).id
    buyer = await startTestNode({ network, bootstrap: [seller.node.addresses()[0]!] })
    await discovered(buyer.url, agentId)
    await discovered(buyer.url, freeId)
    await until(() => buyer.node.market.page({}).items.length === 2)
  })
  afterAll(async () => {
    await buyer?.stop()
    await seller?.stop()
  })

  type Shown = { id: string; network: string; buyable: boolean }
  const list = (query: string) => ask<Shown[]>(buyer.url, `/agents${query}`)

  test('shows an agent of the other network marked, and finds it only when asked to', async () => {
    const mark = { network: foreign, buyable: false }
    expect(await ask<Shown>(buyer.url, `/agents/${agentId}`)).toMatchObject(mark)
    expect(await list('')).toEqual([expect.objectContaining(mark), expect.objectContaining(mark)])
    for (const query of ['?q=echo', '?free=false', '?tags=text&sort=price', '?network=own', `?network=${network}`]) {
      expect([query, await list(query)]).toEqual([query, []])
    }
    for (const query of ['?q=echo&network=any', `?q=echo&network=${foreign}&sort=newest`]) {
      expect((await list(query)).map(({ buyable }) => buyable)).toEqual([false, false])
    }
    expect((await ask<Shown[]>(seller.url, '/agents?q=echo')).map(({ buyable }) => buyable)).toEqual([true, true])
  })

  test('says of status, balance and budget what kind of money they are', async () => {
    expect(await ask(buyer.url, '/status')).toMatchObject({ network, network_kind: kind })
    expect(await ask(buyer.url, '/budget')).toMatchObject({ network, network_kind: kind })
  })

  test('refuses it over HTTP, in calls, orders and workflows', async () => {
    const bodies: [string, object][] = [
      [`/agents/${agentId}/execute`, { task: 'x' }],
      [`/agents/${freeId}/execute`, { task: 'x' }],
      ['/api/execute', { agent_id: agentId, input: 'x' }],
      ['/orders', { agent_id: agentId, price: '0.05', task: 'x' }],
      ['/workflows', { agent_ids: [agentId], input: 'x' }],
      ['/workflows?dry_run=true', { agent_ids: [agentId], input: 'x' }],
    ]
    for (const [path, body] of bodies) {
      const answer = await call(buyer.url, path, { body })
      expect([path, answer]).toEqual([
        path,
        { status: 409, body: expect.objectContaining({ code: 'NETWORK_MISMATCH' }) },
      ])
    }
    expect(await ask(buyer.url, '/payments')).toEqual([])
    expect(await ask(seller.url, '/executions')).toEqual([])
  })

  test('refuses it over MCP and A2A', async () => {
    const client = new Client({ name: 'test', version: '1' })
    await client.connect(new StreamableHTTPClientTransport(new URL(`${buyer.url}/mcp`)))
    try {
      const tool = async (name: string, args: object) =>
        (await client.callTool({ name, arguments: { ...args } })) as {
          isError?: boolean
          content: { text: string }[]
          structuredContent?: object
        }
      for (const [name, args] of [
        ['execute_agent', { agent_id: agentId, task: 'x', max_price: '1' }],
        ['quote_agent', { agent_id: agentId }],
      ] as const) {
        const answer = await tool(name, args)
        expect([name, answer.isError, answer.content[0]!.text]).toEqual([
          name,
          true,
          expect.stringMatching(/NETWORK_MISMATCH/),
        ])
      }
      expect((await tool('discover_agents', {})).structuredContent).toMatchObject({ agents: [] })
      expect((await tool('discover_agents', { network: 'any', query: 'echo' })).structuredContent).toMatchObject({
        agents: [{ network: foreign, buyable: false }, { buyable: false }],
      })
    } finally {
      await client.close()
    }
    const a2a = await a2aClient(`${buyer.url}/a2a/market`)
    const skill = JSON.stringify({ skill: 'execute_agent', agent_id: agentId, task: 'x', max_price: '1' })
    const task = asTask(await a2a.sendMessage(send(skill)))
    expect(stateOf(task)).toBe('FAILED')
    expect(JSON.stringify(task.status)).toMatch(/NETWORK_MISMATCH/)
    expect(await ask(buyer.url, '/payments')).toEqual([])
  })
})
