import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import type { ProviderKeys } from '../config/secrets.ts'
import { type Logger, silentLogger } from '../lib/logger.ts'
import { AgentDefinition } from '../schema/agent.ts'
import { createRuntimeFactory } from './create-runtime.ts'
import type { AgentRuntime } from './runtime.ts'

const SECRET = 'sk-secret-value'
const logged: string[] = []
const record = (fields: object, message: string) => void logged.push(JSON.stringify({ ...fields, message }))
const logger: Logger = { ...silentLogger, warn: record, error: record }

function create(
  fields: object,
  providerKeys: ProviderKeys = {},
  env: Record<string, string> = {},
): Promise<AgentRuntime> {
  const noFetch: typeof fetch = () => expect.fail('nobody is to be asked')
  const definition = AgentDefinition.parse({ name: 'a', description: 'd', price: 0, ...fields })
  logged.length = 0
  return createRuntimeFactory(
    { providerKeys, readKey: (name) => env[name], dataDir: '.' },
    { fetch: noFetch, logger },
  )(definition)
}

const run = (runtime: AgentRuntime, input = 'a task.') =>
  runtime.run({ input, callerId: 'c', history: [], signal: new AbortController().signal })

test('builtin/<name> runs without any key (D10)', async () => {
  const runtime = await create({ model: 'builtin/echo', price: 1 })
  expect([runtime.model, runtime.notice]).toEqual(['builtin/echo', undefined])
  expect(await run(runtime, 'hello')).toBe('hello')
})

test('an unknown builtin is refused with those there are', async () => {
  await expect(create({ model: 'builtin/constructor' })).rejects.toMatchObject({
    code: 'AGENT_NOT_RUNNABLE',
    message: expect.stringContaining(
      'choose one of builtin/summarize, builtin/word-count, builtin/json-query, builtin/echo',
    ),
  })
})

test('without a model and a key a free agent runs on builtin/summarize, and says so (D10, T20)', async () => {
  const runtime = await create({})
  expect(runtime.model).toBe('builtin/summarize')
  expect(runtime.notice).toContain('no model key is set: this free agent runs on builtin/summarize')
  expect(logged.join()).toContain('OPENAI_API_KEY')
  expect(await run(runtime, 'One sentence.')).toBe('One sentence.')
})

test('without a model and a key a paid agent is there, and a run names the fix: nobody pays for a stand-in (D10)', async () => {
  const runtime = await create({ price: 0.000001 })
  expect(runtime.model).toBe('none')
  expect(logged.length).toBe(1)
  await expect(run(runtime)).rejects.toMatchObject({
    code: 'AGENT_NOT_RUNNABLE',
    message: expect.stringMatching(
      /must name a model .* or set one of OPENAI_API_KEY, ANTHROPIC_API_KEY, GOOGLE_API_KEY, OPENROUTER_API_KEY/,
    ),
  })
})

test.each([
  [{ openai: 'k', anthropic: 'k', google: 'k' }, 'openai/'],
  [{ anthropic: 'k', google: 'k' }, 'anthropic/claude-'],
  [{ google: 'k', openrouter: 'k' }, 'google/gemini-'],
  [{ openrouter: 'k' }, 'openrouter/openrouter/auto'],
  [{ openai: 'k', openaiBaseUrl: 'http://127.0.0.1:8000/v1' }, 'builtin/summarize'],
  [{ openai: 'k', openaiBaseUrl: 'http://127.0.0.1:8000/v1', google: 'k' }, 'google/gemini-'],
  [{ openai: ' ' }, 'builtin/summarize'],
])('without a model the first provider whose key is present is taken: %j → %s (D10)', async (keys, model) => {
  expect((await create({}, keys)).model.startsWith(model)).toBe(true)
})

test.each([
  ['openai/gpt-4o', 'OPENAI_API_KEY'],
  ['claude-haiku-4-5', 'ANTHROPIC_API_KEY'],
  ['gemini-2.5-flash', 'GOOGLE_API_KEY'],
  ['openrouter/x/y', 'OPENROUTER_API_KEY'],
  ['openai-compatible/x', 'OPENAI_BASE_URL'],
])('a free agent with %s and no key is not given another model: a run names %s (D10, T20)', async (model, variable) => {
  const runtime = await create({ model })
  expect(runtime.model).toContain('/')
  expect(runtime.notice).toContain(variable)
  await expect(run(runtime)).rejects.toMatchObject({
    code: 'AGENT_NOT_RUNNABLE',
    message: expect.stringContaining(variable),
  })
})

test('a key variable that is empty is named, and its value never (T21)', async () => {
  const runtime = await create({ model: 'openai/gpt-4o', api_key_env: 'TEAM_KEY' }, { openai: SECRET })
  await expect(run(runtime)).rejects.toThrow("the agent's model key is missing: its seller must set TEAM_KEY")
  const broken = await create({ model: 'gpt-4o', api_key_env: 'TEAM_KEY' }, {}, { TEAM_KEY: `${SECRET}\nx: y` })
  await expect(run(broken)).rejects.toThrow('is not a key: its seller must correct TEAM_KEY')
  expect(logged.join()).not.toContain(SECRET)
})

test('api_key_env alone chooses the provider it is known to belong to', async () => {
  expect((await create({ api_key_env: 'ANTHROPIC_API_KEY' }, {}, { ANTHROPIC_API_KEY: 'k' })).model).toMatch(
    /^anthropic\//,
  )
  await expect(create({ api_key_env: 'MY_KEY' }, {}, { MY_KEY: 'k' })).rejects.toThrow('give the model too')
})

test.each([
  'ETHEREUM_PRIVATE_KEY',
  'SELLER_PRIVATE_KEY',
  'NODE_API_TOKEN',
  'DATABASE_URL',
  'MY_WALLET_PRIVATE_KEY',
  'ETHEREUM_RPC_URL',
])('%s is never sent to a model provider (T12, T21)', async (variable) => {
  const created = create({ model: 'openrouter/x/y', api_key_env: variable }, {}, { [variable]: SECRET })
  await expect(created).rejects.toThrow(`${variable} belongs to this node`)
})

test("one provider's key is not sent to another (T12)", async () => {
  const env = { ANTHROPIC_API_KEY: SECRET, OPENAI_API_KEY: SECRET }
  await expect(create({ model: 'openrouter/x/y', api_key_env: 'ANTHROPIC_API_KEY' }, {}, env)).rejects.toThrow(
    'ANTHROPIC_API_KEY is a key of anthropic and is not sent to openrouter',
  )
  const local = { openaiBaseUrl: 'http://127.0.0.1:1/v1' }
  expect(
    (await create({ model: 'openai-compatible/x', api_key_env: 'OPENAI_API_KEY' }, local, env)).notice,
  ).toBeUndefined()
})

test('agents that use no model refuse a key instead of ignoring it', async () => {
  await expect(create({ model: 'builtin/echo', api_key_env: 'K' })).rejects.toThrow('builtin/echo needs no key')
  await expect(create({ command: ['cat'], api_key_env: 'K' })).rejects.toThrow('a command gets no keys')
})

test('a model name nobody understands is refused when the agent is registered', async () => {
  await expect(create({ model: 'nonsense' })).rejects.toMatchObject({ code: 'AGENT_NOT_RUNNABLE' })
})

test('OPENAI_BASE_URL that is no address is told as such', async () => {
  const runtime = await create({ model: 'openai-compatible/x' }, { openaiBaseUrl: 'file:///etc/passwd' })
  await expect(run(runtime)).rejects.toThrow('OPENAI_BASE_URL is not an http(s) URL')
})

test('no key shows when a runtime is printed (T21)', async () => {
  const runtime = await create({ model: 'gpt-4o' }, { openai: SECRET })
  expect(inspect(runtime, { depth: 10, showHidden: true }) + JSON.stringify(runtime)).not.toContain(SECRET)
})
