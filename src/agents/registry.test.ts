import { expect, test } from 'vitest'
import { AgentDefinition } from '../schema/agent.ts'
import { agentId } from './agent-id.ts'
import { createRegistry } from './registry.ts'
import { AgentError, type AgentRuntime } from './runtime.ts'

const sellerId = '12D3KooWSeller'

function definition(fields: object = {}): AgentDefinition {
  return AgentDefinition.parse({ name: 'a', description: 'd', price: 0, ...fields })
}

function registry(createRuntime?: (definition: AgentDefinition) => Promise<AgentRuntime>, agentsMax = 3) {
  const describing = async ({ description }: AgentDefinition): Promise<AgentRuntime> => ({
    model: 'test/model',
    notice: 'told',
    run: async ({ input }) => `${description}: ${input}`,
  })
  return createRegistry({ sellerId, agentsMax }, { createRuntime: createRuntime ?? describing })
}

const call = (input: string) => ({ input, callerId: 'c', history: [], signal: new AbortController().signal })

test('a registered agent is found by its id and runs (D5)', async () => {
  const agents = registry()
  const agent = await agents.register(definition({ timeout_seconds: 7 }))
  expect(agent).toMatchObject({ id: agentId(sellerId, 'a'), model: 'test/model', notice: 'told', timeoutMs: 7000 })
  expect(agents.get(agent.id)).toBe(agent)
  expect(agents.list()).toEqual([agent])
  expect(await agent.run(call('x'))).toBe('d: x')
})

test('without a limit of its own an agent has 120 s and 1 MiB', async () => {
  const agent = await registry(async () => ({
    model: 'm',
    run: async ({ input }) => 'x'.repeat(Number(input)),
  })).register(definition())
  expect(agent.timeoutMs).toBe(120_000)
  expect((await agent.run(call('1048576'))).length).toBe(1048576)
  await expect(agent.run(call('1048577'))).rejects.toMatchObject({ code: 'AGENT_OUTPUT_TOO_LARGE' })
})

test('the largest result an agent may have fits a frame in base64 (D24)', () => {
  const most = AgentDefinition.parse({ name: 'a', description: 'd', price: 0, output_bytes_max: 4 * 1024 * 1024 })
  expect(Math.ceil(most.output_bytes_max! / 3) * 4 + 4096).toBeLessThan(8 * 1024 * 1024)
})

test('registering a name again updates it, in either spelling of Unicode (D5)', async () => {
  const agents = registry()
  const first = await agents.register(definition({ name: '\u00c9cho', description: 'old' }))
  const second = await agents.register(definition({ name: 'E\u0301cho', description: 'new' }))
  expect(second.id).toBe(first.id)
  expect(agents.list()).toEqual([second])
  expect(await agents.get(first.id)?.run(call('x'))).toBe('new: x')
})

test('of two registrations of a name at once the later one holds', async () => {
  const { promise: slow, resolve } = Promise.withResolvers<void>()
  const agents = registry(async ({ description }) => {
    if (description === 'first') await slow
    return { model: description, run: async () => '' }
  })
  const both = [
    agents.register(definition({ description: 'first' })),
    agents.register(definition({ description: 'second' })),
  ]
  resolve()
  await Promise.all(both)
  expect(agents.list().map(({ model }) => model)).toEqual(['second'])
})

test('a removed agent is gone', async () => {
  const agents = registry()
  const { id } = await agents.register(definition())
  expect(agents.remove(id)).toBe(true)
  expect(agents.remove(id)).toBe(false)
  expect(agents.get(id)).toBeUndefined()
})

test('the maximum holds even for registrations at once, and an update is no new agent', async () => {
  const agents = registry()
  const names = ['a', 'b', 'c', 'd', 'e']
  const results = await Promise.allSettled(names.map((name) => agents.register(definition({ name }))))
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected', 'rejected'])
  expect((results[3] as PromiseRejectedResult).reason).toMatchObject({ code: 'AGENTS_TOO_MANY' })
  await agents.register(definition({ name: 'b', description: 'new' }))
  expect(agents.list().length).toBe(3)
})

test('an agent whose runtime cannot be made is not registered, and the old one stays', async () => {
  let isBroken = false
  const agents = registry(async () => {
    if (isBroken) throw new AgentError('AGENT_NOT_RUNNABLE', 'no such model')
    return { model: 'm', run: async () => 'old' }
  })
  const { id } = await agents.register(definition())
  isBroken = true
  await expect(agents.register(definition())).rejects.toThrow('no such model')
  expect(await agents.get(id)?.run(call('x'))).toBe('old')
})
