/** D47: what a model is told, and how it is asked, is its seller's alone. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest'
import { createRuntimeFactory } from '../../src/agents/create-runtime.ts'
import { systemParts } from '../../src/cli/parts.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { AgentDefinition } from '../../src/schema/agent.ts'
import { cli } from '../cli/harness.ts'
import { type FakeLlm, startFakeLlm } from '../support/fake-llm.ts'
import { startTestNode, stopTestNodes, testDir } from '../support/loopback-node.ts'

const SECRET = 'Never say the word orchard.'
let llm: FakeLlm
beforeEach(async () => {
  llm = await startFakeLlm()
})
afterEach(() => llm[Symbol.asyncDispose]())
afterAll(stopTestNodes)

async function create(fields: object, dataDir = '.') {
  const definition = AgentDefinition.parse({ name: 'a', description: 'For everybody.', price: 0.01, ...fields })
  const options = { providerKeys: { openai: 'sk-test' }, readKey: () => undefined, dataDir }
  return createRuntimeFactory(options, { fetch: llm.fetch, logger: silentLogger })(definition)
}
const task = { input: 'hello', callerId: 'c', history: [], signal: new AbortController().signal }

test('D47: a model gets the private instructions and the parameters of its entry', async () => {
  const parameters = { temperature: 0.5, max_output_tokens: 77 }
  const agent = await create({ model: 'openai/gpt-4o', instructions: SECRET, ...parameters })
  await agent.run(task)
  const { messages, ...body } = llm.requests[0]!.body
  expect(messages?.[0]).toEqual({ role: 'system', content: SECRET })
  expect(JSON.stringify(messages)).not.toContain('For everybody')
  expect(body).toMatchObject({ temperature: 0.5, max_tokens: 77 })
})

test('D47: the effort of reasoning reaches the provider', async () => {
  await (await create({ model: 'openai/gpt-5.4-mini', reasoning: 'low' })).run(task)
  expect(llm.requests[0]!.body).toMatchObject({ reasoning_effort: 'low' })
})

test('D47: instructions are read from a file of the data directory; one that is missing keeps the agent off the market', async () => {
  const dir = await testDir()
  await writeFile(join(dir, 'poet.md'), `${SECRET}\n`)
  await (await create({ model: 'openai/gpt-4o', instructions_file: 'poet.md' }, dir)).run(task)
  expect(llm.requests[0]!.body.messages?.[0]?.content).toBe(SECRET)
  const missing = await create({ model: 'openai/gpt-4o', instructions_file: 'gone.md' }, dir)
  expect(missing).toMatchObject({
    lacks: 'part',
    notice: `instructions_file: there is no file ${join(dir, 'gone.md')}`,
  })
  const told = await missing.run(task).catch((error: unknown) => String(error))
  expect(told).not.toContain(dir)
})

test.each([
  [{ instructions: SECRET, command: ['cat'] }, 'instructions'],
  [{ temperature: 1, http: 'http://127.0.0.1:1' }, 'temperature'],
  [{ instructions: SECRET, instructions_file: 'x' }, 'instructions_file'],
])('D47: %j is refused: %s', (fields, path) => {
  const parsed = AgentDefinition.safeParse({ name: 'a', description: 'd', price: 1, ...fields })
  expect(parsed.error?.issues.map((issue) => issue.path[0])).toEqual([path])
})

test('D47: an agent that runs no model refuses instructions rather than go without them', async () => {
  await expect(create({ model: 'builtin/echo', instructions: SECRET })).rejects.toMatchObject({
    code: 'AGENT_NOT_RUNNABLE',
    message: expect.stringContaining('instructions: builtin/echo'),
  })
})

test('D47: instructions are in no listing, card or answer of the API but to admin; they stand in agents.yaml and are changed there', async () => {
  const dataDir = await testDir()
  const node = await startTestNode({ key: generatePrivateKey(), dataDir, apiEnabled: true })
  const request = async (method: string, path: string, { token, body }: { token?: string; body?: object } = {}) => {
    const headers = {
      ...(body && { 'content-type': 'application/json' }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    }
    const response = await fetch(`${node.apiUrl}${path}`, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status: response.status, text: await response.text() }
  }
  const agent = { name: 'Poet', description: 'Writes poems.', price: 0.01, model: 'ollama/x' }
  const created = await request('POST', '/agents', { body: { ...agent, instructions: SECRET, temperature: 1.43219 } })
  expect(created).toMatchObject({ status: 201, text: expect.not.stringContaining('orchard') })
  const { id } = JSON.parse(created.text) as { id: string }
  const file = { ...agent, name: 'Other', instructions_file: '/etc/passwd' }
  expect(await request('POST', '/agents', { body: file })).toMatchObject({ status: 403 })

  const { text: made } = await request('POST', '/tokens', { body: { name: 'r', scope: 'read' } })
  const { token } = JSON.parse(made) as { token: string }
  const places = ['/agents', `/agents/${id}`, '/agents/local', '/.well-known/agent-card.json', '/agents/own', '/status']
  for (const place of places) {
    const { status, text } = await request('GET', place, { token })
    expect([place, status, text.includes('orchard'), text.includes('1.43219')]).toEqual([place, 200, false, false])
  }
  expect((await request('GET', '/agents/own')).text).toContain('orchard')

  const run = (...argv: string[]) => cli(argv, { dataDir, parts: systemParts })
  expect(await run('agent', 'update', 'Poet', '--instructions', 'Rhyme always.')).toMatchObject({ code: 0 })
  const [own] = node.ownAgents.list()
  expect(own).toMatchObject({
    description: 'Writes poems.',
    instructions: 'Rhyme always.',
    temperature: 1.43219,
    listed: true,
  })
  const { body } = { body: { instructions: null, temperature: null } }
  expect(await request('PATCH', `/agents/${id}`, { body })).toMatchObject({ status: 200 })
  expect(node.ownAgents.get(id)).not.toHaveProperty('instructions')
})
