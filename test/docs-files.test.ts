/** The samples of docs/agents-yaml.md are on the market of a real node, and the one of docs/workflows.md runs there. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type NodeProcess, startNode } from '../devnet/cli-process.ts'
import { llmProviders } from '../src/agents/model-name.ts'
import { parseAgentsDocument } from '../src/config/agents-document.ts'
import { readOriginalConfig } from '../src/config/original-config.ts'
import { AgentDefinition } from '../src/schema/agent.ts'
import { ToolServer } from '../src/schema/agent-service.ts'
import { operatorFields, STEPS_AT_ONCE_MAX, TASK_BYTES_MAX } from '../src/schema/limits.ts'
import type { OwnAgent } from '../src/schema/own-agent.ts'
import type { WorkflowQuote, WorkflowRecord } from '../src/schema/workflow.ts'
import { ask, call } from './support/api-calls.ts'
import { blocksOf, codeOf, hasPython } from './support/doc-blocks.ts'
import { until } from './support/until.ts'

const PAGE = 'agents-yaml.md'
const samples = blocksOf(PAGE).filter(({ mark }) => mark === 'agent')
const agents = samples.flatMap(({ code }) => parseAgentsDocument(code, PAGE).agents)

const python = await hasPython()
const stops: (() => Promise<unknown>)[] = []
let home: string
let node: NodeProcess

beforeAll(async () => {
  if (!python) return
  home = await mkdtemp(join(tmpdir(), 'stoa-docs-files-'))
  stops.push(() => rm(home, { recursive: true, force: true }))
  const file = (name: string, text: string, mode = 0o600) => writeFile(join(home, name), text, { mode })
  for (const directory of ['data', 'bin', 'agents']) await mkdir(join(home, directory), { mode: 0o700 })
  await file('data/editor.md', codeOf(PAGE, 'editor', 'text'))
  await file('data/shouter.ts', codeOf(PAGE, 'shouter', 'ts'))
  await file('agents/upper.py', codeOf(PAGE, 'upper', 'python'))
  await file('bin/npx', '#!/bin/sh\n', 0o700)
  const keys = ['ANTHROPIC_API_KEY', 'GOOGLE_API_KEY', 'OPENROUTER_API_KEY', 'ANSWERS_API_KEY']
  const tokens = ['OPENAI_API_KEY', 'TOOLS_TOKEN', 'REVERSER_TOKEN', 'FRONT_TOKEN', 'FORECAST_TOKEN', 'PETS_KEY']
  const lines = [...keys, ...tokens].map((name) => `${name}=a-made-up-key\n`)
  await file('data/keys.env', `${lines.join('')}OPENAI_BASE_URL=http://127.0.0.1:8000/v1\n`)
  const port = await startReverser()
  const entries = samples.map(({ code }) => code.replace(/^agents:\n/, '')).join('')
  const placed = entries.replaceAll('/srv/agents', join(home, 'agents')).replace(':9000/', `:${port}/`)
  await file('data/agents.yaml', `agents:\n${placed}`)
  node = await startNode(['--port', '0', '--api-port', '0', '--no-mdns', '--data-dir', join(home, 'data')], {
    PATH: `${join(home, 'bin')}:${process.env.PATH}`,
    ETHEREUM_RPC_URL: 'http://127.0.0.1:9',
    FACILITATOR_URL: 'http://127.0.0.1:9',
    NODE_LISTEN_HOST: '127.0.0.1',
  })
  stops.push(() => node.stop())
})
afterAll(async () => {
  for (const stop of stops.reverse()) await stop()
})

/** The web service of the page, on a port of its own. */
async function startReverser(): Promise<number> {
  const serve = 'ThreadingHTTPServer(("127.0.0.1", 9000), Reverser).serve_forever()'
  const code = codeOf(PAGE, 'reverser', 'python')
  expect(code).toContain(serve)
  const anyPort =
    's = ThreadingHTTPServer(("127.0.0.1", 0), Reverser); print(s.server_port, flush=True); s.serve_forever()'
  const child = spawn('python3', ['-c', code.replace(serve, anyPort)], {
    env: { PATH: process.env.PATH, REVERSER_TOKEN: 'a-made-up-key' },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const gone = once(child, 'close')
  stops.push(() => {
    child.kill()
    return gone
  })
  return Number(String((await once(child.stdout, 'data'))[0]))
}

test('the samples of docs/agents-yaml.md use every field, every provider and every kind of agent', () => {
  const used = new Set(agents.flatMap((agent) => Object.keys(agent)))
  expect([...used].sort()).toEqual(Object.keys(AgentDefinition.shape).sort())
  const ofServers = new Set(agents.flatMap(({ mcp = [] }) => mcp.flatMap((server) => Object.keys(server))))
  expect([...ofServers].sort()).toEqual(Object.keys(ToolServer.shape).sort())
  const models = new Set(agents.flatMap(({ model }) => (model === undefined ? [] : [model.split('/')[0]])))
  expect([...models].sort()).toEqual(['builtin', ...llmProviders].sort())
})

test.skipIf(!python)(
  'a node with the samples of docs/agents-yaml.md puts each of them on the market but those for workers',
  async () => {
    const own = await ask<OwnAgent[]>(node.ready.api_url, '/agents/own')
    expect(own.map(({ name, listed, notice }) => ({ name, listed, notice }))).toEqual(
      expect.arrayContaining(
        agents.map(({ name, worker }) => {
          if (worker === undefined) return { name, listed: true, notice: undefined }
          return { name, listed: false, notice: expect.stringContaining('no worker') }
        }),
      ),
    )
    expect(own).toHaveLength(agents.length)
  },
)

test.skipIf(!python).each([
  ['Summarizer', 'It says one thing.', 'It says one thing.'],
  ['Counter', 'two words', expect.stringContaining('"words": 2')],
  ['Upper', 'hello', 'HELLO'],
  ['Reverser', 'hello', 'olleh'],
  ['Shouter', 'hello', 'HELLO!'],
])('the sample %s of docs/agents-yaml.md does its task', async (name, task, output) => {
  const { id } = node.ready.agents.find((agent) => agent.name === name)!
  expect(await ask(node.ready.api_url, `/agents/${id}/test`, { body: { task } })).toMatchObject({ output })
})

/** The sample of docs/workflows.md, its agents those of the node. */
function sampleWorkflow(): { name: string; steps: { id: string }[] } {
  const idOf = (name: string) => node.ready.agents.find((agent) => agent.name === name)!.id
  const code = codeOf('workflows.md', 'workflow', 'json')
    .replace('summarizer-id', idOf('Summarizer'))
    .replace('counter-id', idOf('Counter'))
    .replace('second-writer-id', idOf('Upper'))
    .replace('writer-id', idOf('Shouter'))
  return JSON.parse(code)
}

test.skipIf(!python)('D20: the sample of docs/workflows.md is quoted, and runs as the page says', async () => {
  const url = node.ready.api_url
  const body = sampleWorkflow()
  const quote = await ask<WorkflowQuote>(url, '/workflows?dry_run=true', { body })
  expect(quote.steps.map(({ id, depends_on }) => [id, depends_on])).toEqual([
    ['summary', []],
    ['words', []],
    ['report', ['summary', 'words']],
  ])
  expect(await ask<unknown[]>(url, '/workflows')).toEqual([])
  const headers = { 'idempotency-key': '0b6a2c1e-6f0e-4a53-9d5c-1f2e3d4c5b6a' }
  const { id } = await ask<WorkflowRecord>(url, '/workflows', { body, headers })
  await until(async () => (await ask<WorkflowRecord>(url, `/workflows/${id}`)).status === 'completed')
  const { output, name } = await ask<WorkflowRecord>(url, `/workflows/${id}`)
  expect(name).toBe('Report')
  expect(output).toMatch(/^WRITE A REPORT\.\n\nSUMMARY: THE TEXT TO WORK ON\.\n\nFIGURES: \{[\s\S]*"WORDS": 5[\s\S]*!$/)
  // The same key answers the same workflow, and another body is refused.
  expect(await ask(url, '/workflows', { body, headers })).toMatchObject({ id })
  const other = await call(url, '/workflows', { body: { ...body, name: 'Other' }, headers })
  expect(other).toMatchObject({ status: 409, body: { code: 'IDEMPOTENCY_CONFLICT' } })
})

test.skipIf(!python)('D20: what docs/workflows.md says is refused, is refused before anything begins', async () => {
  const url = node.ready.api_url
  const [summary, words, report] = sampleWorkflow().steps as Record<string, unknown>[]
  const refused = async (steps: object[]) => (await call(url, '/workflows', { body: { input: 'x', steps } })).body
  expect(await refused([{ ...summary, agent_id: 'nobody' }])).toMatchObject({ code: 'WORKFLOW_INVALID' })
  const circle = [{ ...summary, depends_on: ['report'] }, words!, report!]
  expect(await refused(circle)).toMatchObject({ detail: expect.stringContaining('circle') })
  expect(await refused([{ ...summary, input: '{{nothing}}' }])).toMatchObject({ code: 'WORKFLOW_INVALID' })
  expect(await refused([{ ...summary, color: 'red' }])).toMatchObject({ code: 'INVALID_REQUEST' })
})

test('an entry of the original node becomes the one that docs/from-other-nodes.md shows', async () => {
  const page = 'from-other-nodes.md'
  const path = join(await mkdtemp(join(tmpdir(), 'stoa-docs-theirs-')), 'agents.yaml')
  await writeFile(path, codeOf(page, 'theirs', 'yaml'))
  const { agents: imported, keys } = await readOriginalConfig(path)
  expect(imported).toEqual(parseAgentsDocument(codeOf(page, 'ours', 'yaml'), page).agents)
  expect(keys).toEqual({ GOOGLE_API_KEY: 'a-key' })
  await rm(dirname(path), { recursive: true })
})

test('the pages on agents.yaml and workflows name the limits and the private fields of the source', async () => {
  const read = (name: string) => readFile(new URL(`../docs/${name}`, import.meta.url), 'utf8')
  const refused = /^The HTTP API refuses ([^.]+)\./m.exec(await read(PAGE))![1]!
  expect([...refused.matchAll(/`(\w+)`/g)].map(([, name]) => name).sort()).toEqual([...operatorFields].sort())
  const workflows = await read('workflows.md')
  expect(workflows).toContain(`At most ${STEPS_AT_ONCE_MAX} steps run at once`)
  expect(workflows).toContain(`(${TASK_BYTES_MAX.toLocaleString('en')} bytes)`)
})
