/** What an operator does with the agents of a node, over its API, and what a buyer sees of it. */
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, expect, test } from 'vitest'
import type { OwnAgent } from '../../src/schema/own-agent.ts'
import { discover, startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { until } from '../support/until.ts'

afterAll(stopTestNodes)

async function call(node: TestNode, method: string, path: string, body?: object) {
  const response = await fetch(`${node.apiUrl}${path}`, {
    method,
    ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> & OwnAgent }
}

test('an agent is changed, paused, resumed, tried and removed, and each change is on the market and in agents.yaml', async () => {
  const seller = await startTestNode({ key: generatePrivateKey(), apiEnabled: true })
  const buyer = await startTestNode({ key: generatePrivateKey(), bootstrap: [seller.addresses()[0]!] })
  const file = () => readFile(join(seller.dataDir, 'agents.yaml'), 'utf8')
  const listing = { name: 'Echo', description: 'repeats', price: 0.5, model: 'builtin/echo' }
  const { body: created } = await call(seller, 'POST', '/agents', listing)
  const seen = async (fits: (price: bigint | undefined) => boolean) =>
    until(() => fits(buyer.listings().find(({ id }) => id === created.id)?.price))
  await discover(buyer, seller.peerId, 'Echo')

  const changed = await call(seller, 'PATCH', `/agents/${created.id}`, { price: 0.25, tags: ['text'] })
  expect(changed).toMatchObject({ status: 200, body: { price: '0.25', tags: ['text'], listed: true } })
  await seen((price) => price === 250_000n)
  expect(await file()).toContain('price: 0.25')

  expect((await call(seller, 'POST', `/agents/${created.id}/pause`)).body).toMatchObject({
    paused: true,
    listed: false,
  })
  await seen((price) => price === undefined)
  expect(await file()).toContain('paused: true')
  expect((await call(seller, 'GET', '/agents/own')).body).toMatchObject([{ id: created.id, paused: true }])
  const tried = await call(seller, 'POST', `/agents/${created.id}/test`, { task: 'hello' })
  expect(tried.body).toMatchObject({ output: 'hello' })
  expect((await call(seller, 'GET', '/executions')).body).toEqual([])

  expect((await call(seller, 'POST', `/agents/${created.id}/resume`)).body).toMatchObject({
    paused: false,
    listed: true,
  })
  await seen((price) => price === 250_000n)
  expect((await call(seller, 'DELETE', `/agents/${created.id}`)).body).toMatchObject({ listed: false })
  await seen((price) => price === undefined)
  expect(await file()).not.toContain('Echo')
  expect((await call(seller, 'DELETE', `/agents/${created.id}`)).body).toMatchObject({ code: 'UNKNOWN_AGENT' })
})

test('what cannot be listed, or kept, is refused with what to do, and the agent sells on as it was', async () => {
  const seller = await startTestNode({ key: generatePrivateKey(), apiEnabled: true })
  const listing = { name: 'Echo', description: 'repeats', price: 0.5, model: 'builtin/echo' }
  const { body: created } = await call(seller, 'POST', '/agents', listing)
  // 4000 characters that JSON writes with six each: more than a listing holds.
  const description = `a${'\u0001'.repeat(3998)}a`
  for (const [method, path, body] of [
    ['POST', '/agents', { ...listing, name: 'Other', description }],
    ['PATCH', `/agents/${created.id}`, { description }],
  ] as const) {
    const refused = await call(seller, method, path, body)
    expect(refused).toMatchObject({ status: 400, body: { code: 'INVALID_REQUEST' } })
    expect(JSON.stringify(refused.body)).toContain('bytes')
  }
  // Nobody can make a lock of a directory.
  await mkdir(join(seller.dataDir, 'agents.yaml.lock'))
  const unkept = await call(seller, 'PATCH', `/agents/${created.id}`, { price: 0.25 })
  expect(unkept.body).toMatchObject({ code: 'STORE_WRITE_FAILED', detail: expect.stringContaining('agents.yaml') })
  const { body } = await call(seller, 'GET', '/agents/own')
  expect(body).toMatchObject([{ name: 'Echo', description: 'repeats', price: '0.5', listed: true }])
})

test('a paused agent has no listing to return, so its registration is refused and nothing of it is kept', async () => {
  const seller = await startTestNode({ key: generatePrivateKey(), apiEnabled: true })
  const agent = { name: 'Echo', description: 'repeats', price: 0n, model: 'builtin/echo' }
  const refused = seller.registerAgent({ ...agent, paused: true })
  await expect(refused).rejects.toMatchObject({
    code: 'INVALID_REQUEST',
    message: expect.stringContaining('ownAgents.keep'),
  })
  expect((await call(seller, 'GET', '/agents/own')).body).toEqual([])
  await expect(readFile(join(seller.dataDir, 'agents.yaml'))).rejects.toMatchObject({ code: 'ENOENT' })
  // One that is on the market stays as it was.
  await seller.registerAgent(agent)
  await expect(seller.registerAgent({ ...agent, paused: true })).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
  expect((await call(seller, 'GET', '/agents/own')).body).toMatchObject([{ paused: false, listed: true }])
  expect(await seller.ownAgents.keep({ ...agent, paused: true })).toMatchObject({ paused: true, listed: false })
})

test('T12: what an agent of agents.yaml runs is not changed over HTTP', async () => {
  const seller = await startTestNode({ key: generatePrivateKey(), apiEnabled: true })
  const { id } = await seller.registerAgent({ name: 'Own', description: 'd', price: 0n, command: ['/bin/cat'] })
  const refused = await call(seller, 'PATCH', `/agents/${id}`, { model: 'builtin/echo' })
  expect(refused).toMatchObject({ status: 403, body: { code: 'FIELD_NOT_ALLOWED' } })
  expect(await call(seller, 'PATCH', `/agents/${id}`, { command: ['/bin/sh'] })).toMatchObject({ status: 400 })
  const { body } = await call(seller, 'PATCH', `/agents/${id}`, { price: 0.1 })
  expect(body).toMatchObject({ price: '0.1', managed_in_file: true })
  expect(await readFile(join(seller.dataDir, 'agents.yaml'), 'utf8')).toContain('/bin/cat')
})

test('while a node that has crashed registers its agents again, buyers are told to come back', async () => {
  const buyer = await startTestNode({ key: generatePrivateKey() })
  const seller = { key: generatePrivateKey(), dataDir: await testDir(), bootstrap: [buyer.addresses()[0]!] }
  const echo = { name: 'echo', description: 'repeats', price: 0n, model: 'builtin/echo' }
  // A crash leaves its listings on the market as this does.
  const first = await startTestNode({ ...seller, keepListed: true })
  const { id: agentId } = await first.registerAgent(echo, { persist: false })
  await discover(buyer, first.peerId, 'echo')
  await first.stop()
  const second = await startTestNode(seller)
  // A buyer that shares a ledger is met by two hosts.
  await until(() => second.peers().length > 0)
  const ask = () => buyer.execute({ agentId, input: 'hello', signal: AbortSignal.timeout(10_000) })
  await expect(ask()).rejects.toMatchObject({ code: 'OVERLOADED', retryable: true })
  await second.registerAgent(echo, { persist: false })
  expect(await ask()).toMatchObject({ output: 'hello' })
})

test('an agent is tried before it is registered, and nothing of it is kept', async () => {
  const seller = await startTestNode({ key: generatePrivateKey(), apiEnabled: true })
  const agent = { name: 'Echo', description: 'repeats', price: 0.5, model: 'builtin/echo' }
  const tried = await call(seller, 'POST', '/agents/try', { agent, task: 'hello' })
  expect(tried).toMatchObject({ status: 200, body: { output: 'hello' } })
  for (const path of ['/agents', '/agents/own', '/executions']) {
    expect((await call(seller, 'GET', path)).body).toEqual([])
  }
  const broken = await call(seller, 'POST', '/agents/try', { agent: { ...agent, model: 'openai/gpt' }, task: 'hello' })
  expect(broken.body).toMatchObject({ code: 'AGENT_NOT_RUNNABLE', detail: expect.stringContaining('OPENAI_API_KEY') })
  // T12: nor does it run a program of this machine.
  const program = { name: 'Echo', description: 'repeats', price: 0, command: ['cat'] }
  expect((await call(seller, 'POST', '/agents/try', { agent: program, task: 'x' })).status).toBe(400)
  expect((await call(seller, 'GET', '/models')).body).toMatchObject({
    builtin: expect.arrayContaining([expect.objectContaining({ model: 'builtin/echo' })]),
  })
})

test('executions are found by what was said, by the name of their agent, by failure and by day', async () => {
  const seller = await startTestNode({ key: generatePrivateKey(), apiEnabled: true })
  const { body: echo } = await call(seller, 'POST', '/agents', {
    ...{ name: 'Parrot', description: 'repeats', price: 0, model: 'builtin/echo' },
  })
  for (const task of ['hello', 'good bye']) await call(seller, 'POST', `/agents/${echo.id}/execute`, { task })
  const found = async (query: string) =>
    ((await call(seller, 'GET', `/executions?${query}`)).body as unknown as { input: string }[]).map(
      ({ input }) => input,
    )
  expect(await found('q=BYE')).toEqual(['good bye'])
  expect(await found('q=parrot')).toEqual(['good bye', 'hello'])
  expect(await found('failed=true')).toEqual([])
  expect(await found(`failed=false&agent_id=${echo.id}`)).toHaveLength(2)
  const [today, tomorrow] = [0, 1].map((days) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10))
  expect(await found(`since=${today}T00:00:00Z&until=${tomorrow}T00:00:00Z`)).toHaveLength(2)
  expect(await found(`since=${tomorrow}T00:00:00Z`)).toEqual([])
  expect((await call(seller, 'GET', '/orders?q=nothing&since=2026-01-01T00:00:00Z')).body).toEqual([])
  expect((await call(seller, 'GET', '/workflows?q=nothing')).body).toEqual([])
  expect((await call(seller, 'GET', '/orders?since=yesterday')).status).toBe(400)
})
