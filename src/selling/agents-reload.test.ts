import { expect, test } from 'vitest'
import { createRegistry } from '../agents/registry.ts'
import { AgentError, type AgentRuntime } from '../agents/runtime.ts'
import { parseAgentsDocument } from '../config/agents-document.ts'
import type { AgentDefinition } from '../schema/agent.ts'
import { type ReloadDeps, reloadAgents } from './agents-reload.ts'

const entry = (name: string, fields = 'price: 0.01') => `- {name: ${name}, description: d, ${fields}}`
const agentsOf = (...entries: string[]) => `agents:\n${entries.join('\n')}\n`

/** A registry as of a node, a file that the test writes, and what was done to the market. */
function setup({ agentsMax = 5 } = {}) {
  const seen: string[] = []
  const missing = new Set<string>()
  const stored = new Set<string>()
  const fails = { register: '' }
  const file = { text: '' }
  async function createRuntime({ name }: AgentDefinition): Promise<AgentRuntime> {
    const lacks = missing.has(name) ? { lacks: 'part' as const, notice: `${name} has no program: install it` } : {}
    return { model: 'test', run: async () => '', ...lacks }
  }
  const registry = createRegistry({ sellerId: 'seller', agentsMax }, { createRuntime })
  const agents: ReloadDeps['agents'] = {
    async register(definition, { stored: isStored = false }) {
      if (definition.name === fails.register) throw new Error('the disk is full')
      const { id } = await registry.register(definition, { keepBroken: true })
      if (isStored) stored.add(id)
      seen.push(`list ${definition.name} ${definition.price}`)
      return id
    },
    isStored: (id) => stored.has(id),
    async check(definition) {
      const { lacks, notice } = await registry.sketch(definition)
      if (lacks === 'part') throw new AgentError('AGENT_NOT_RUNNABLE', notice!)
    },
    async refresh(id) {
      const { definition, lacks } = registry.get(id)!
      const now = await registry.register(definition, { keepBroken: true })
      seen.push(`refresh ${definition.name}`)
      return lacks !== undefined && now.lacks === undefined
    },
    async drop(id) {
      seen.push(`drop ${registry.get(id)?.definition.name}`)
      registry.remove(id)
    },
  }
  const path = 'agents.yaml'
  const readFile = async () => ({ ...parseAgentsDocument(file.text, path), path })
  const deps: ReloadDeps = { sellerId: 'seller', agentsMax, registry, agents, readFile }
  async function reload(text: string) {
    file.text = text
    seen.length = 0
    const { added, changed, removed, unchanged, kept } = await reloadAgents(deps)
    const names = (ids: string[]) => ids.map((id) => registry.get(id)!.definition.name)
    const gone = removed.map(({ definition }) => definition.name)
    return { added: names(added), changed: names(changed), removed: gone, unchanged, kept }
  }
  const sold = () =>
    registry
      .list()
      .map(({ definition }) => `${definition.name} ${definition.price}`)
      .sort()
  return { reload, registry, agents, seen, missing, fails, sold }
}

test('what is new is added, what changed is changed, what left is removed, and the rest is not touched', async () => {
  const { reload, registry, seen } = setup()
  expect(await reload(agentsOf(entry('A'), entry('B'), entry('C')))).toMatchObject({ added: ['A', 'B', 'C'] })
  const untouched = registry.list().find(({ definition }) => definition.name === 'A')
  expect(await reload(agentsOf(entry('D'), entry('B', 'price: 0.02'), entry('A')))).toEqual({
    ...{ added: ['D'], changed: ['B'], removed: ['C'], unchanged: 1, kept: [] },
  })
  expect(seen).toEqual(['list B 20000', 'drop C', 'list D 10000'])
  expect(registry.list()).toContain(untouched)
  // Another order and another spelling of the same values are no change.
  expect(await reload(agentsOf(entry('B', 'price: 0.020'), entry('A', 'price: "0.01"'), entry('D')))).toEqual({
    ...{ added: [], changed: [], removed: [], unchanged: 3, kept: [] },
  })
  expect(seen).toEqual([])
})

test('one mistake changes nothing, and the error names line, agent and remedy of each', async () => {
  const { reload, sold, seen, missing } = setup()
  await reload(agentsOf(entry('A'), entry('B')))
  missing.add('C').add('A')
  for (const [text, message] of [
    [
      agentsOf(entry('A', 'price: 1'), entry('C')),
      /^agents\.yaml:2: "A": A has no program: install it\nagents\.yaml:3: "C": C has/,
    ],
    [agentsOf(entry('D'), entry('B', 'price: 1'), '- {name: E, descr'), /agents\.yaml:5: not valid YAML/],
    [agentsOf(entry('D'), '- {name: E, description: d}'), /agents\.yaml:3: agents\[1\]: price/],
    [agentsOf(...['D', 'E', 'F', 'G', 'H', 'I'].map((name) => entry(name))), /would host 6 agents, and 5 are the most/],
  ] as const) {
    await expect(reload(text)).rejects.toThrow(message)
    expect([seen, sold()]).toEqual([[], ['A 10000', 'B 10000']])
  }
})

test('a file that is empty, cut off before its list, or gone takes no agents off the market', async () => {
  const { reload, sold } = setup()
  expect(await reload('')).toMatchObject({ removed: [] })
  await reload(agentsOf(entry('A')))
  for (const text of ['', '# mine\n', 'agents:\n']) {
    await expect(reload(text)).rejects.toThrow('write "agents: []" to sell none of them')
    expect(sold()).toEqual(['A 10000'])
  }
  expect(await reload('agents: []\n')).toMatchObject({ removed: ['A'] })
})

test('agents that did not come from the file stay, also when the file has their name', async () => {
  const { reload, agents, sold } = setup()
  await agents.register({ name: 'Flag', description: 'd', price: 7n }, { persist: false })
  await reload(agentsOf(entry('A')))
  expect(await reload(agentsOf(entry('Flag')))).toMatchObject({ removed: ['A'], added: [], kept: ['Flag'] })
  expect(sold()).toEqual(['Flag 7'])
})

test('an agent that could not run is made anew, and is said to be changed when it can', async () => {
  const { reload, agents, seen, missing } = setup()
  missing.add('A')
  const stored = { persist: false, stored: true }
  await agents.register({ name: 'A', description: 'd', price: 10_000n }, stored)
  await reload(agentsOf(entry('A')))
  expect(seen).toEqual(['refresh A'])
  missing.delete('A')
  expect(await reload(agentsOf(entry('A')))).toMatchObject({ changed: ['A'], unchanged: 0 })
})

test('an agent that sells on does not lose the file with its instructions', async () => {
  const { reload, seen, missing } = setup()
  const told = agentsOf(entry('A', 'price: 0.01, instructions_file: ./a.md'))
  await reload(told)
  missing.add('A')
  await expect(reload(told)).rejects.toThrow('"A": A has no program')
  expect(seen).toEqual([])
  missing.clear()
  expect(await reload(told)).toMatchObject({ changed: [], unchanged: 1 })
  expect(seen).toEqual(['refresh A'])
})

test('a step that fails undoes the steps before it', async () => {
  const { reload, sold, fails } = setup()
  await reload(agentsOf(entry('A'), entry('B')))
  fails.register = 'D'
  const next = agentsOf(entry('A', 'price: 0.02'), entry('C'), entry('D'))
  await expect(reload(next)).rejects.toThrow('the disk is full')
  expect(sold()).toEqual(['A 10000', 'B 10000'])
  fails.register = ''
  expect(await reload(next)).toEqual({ added: ['C', 'D'], changed: ['A'], removed: ['B'], unchanged: 0, kept: [] })
})
