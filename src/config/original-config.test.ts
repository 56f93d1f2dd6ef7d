import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readOriginalConfig } from './original-config.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-original-'))
})
afterEach(() => rm(directory, { recursive: true }))
const write = (name: string, yaml: string) => writeFile(join(directory, name), yaml)

test('agents, keys and settings of the original node become ours', async () => {
  await write(
    'agents.yaml',
    `agents:
  - {name: weather-bot, description: The weather, price: 0.001, model: gemini-2.5-flash, api_key: g-1, on_chain: true}
  - {name: code-helper, description: Code, price: 0.002, api_key: ""}
  - {name: local, description: Here, price: 0, model: llama3, openai_api_key: o-1, openai_base_url: "http://127.0.0.1:11434/v1/"}
  - {name: other, description: Mine, price: 1, model: gpt-5, provider: openai, openai_api_key: o-2}
`,
  )
  await write(
    'config.yaml',
    'rpc_url: https://rpc.example\np2p_port: 4002\nbootstrap_peers: [/ip4/1.2.3.4/tcp/1/p2p/x]\n',
  )
  const { agents, keys, settings, notes } = await readOriginalConfig(directory)
  expect(agents).toEqual([
    { name: 'weather-bot', description: 'The weather', price: 1_000n, model: 'google/gemini-2.5-flash' },
    { name: 'code-helper', description: 'Code', price: 2_000n },
    { name: 'local', description: 'Here', price: 0n, model: 'openai-compatible/llama3' },
    { name: 'other', description: 'Mine', price: 1_000_000n, model: 'openai/gpt-5', api_key_env: 'OTHER_API_KEY' },
  ])
  expect(keys).toEqual({
    GOOGLE_API_KEY: 'g-1',
    OPENAI_API_KEY: 'o-1',
    OPENAI_BASE_URL: 'http://127.0.0.1:11434/v1/',
    OTHER_API_KEY: 'o-2',
  })
  expect(settings).toEqual({
    rpc_url: 'https://rpc.example',
    'p2p.port': 4002,
    'p2p.bootstrap': ['/ip4/1.2.3.4/tcp/1/p2p/x'],
  })
  expect(notes).toEqual([expect.stringContaining('weather-bot')])
})

test.each([
  ['model: gpt-4o-mini, openai_api_key: k', 'openai/gpt-4o-mini'],
  ['model: gpt-4o-mini', 'openai/gpt-4o-mini'],
  ['model: m, openai_base_url: "http://127.0.0.1:1/v1"', 'openai-compatible/m'],
  ['model: meta/m, provider: openai, openai_base_url: "http://127.0.0.1:1/v1"', 'openai-compatible/meta/m'],
  ['model: m, api_key: g, openai_api_key: k, openai_base_url: "http://127.0.0.1:1/v1"', 'google/m'],
  ['model: m, provider: google, openai_api_key: k', 'google/m'],
  ['model: m, provider: OpenAI, api_key: g', 'openai/m'],
  ['model: gemini-2.5-flash', 'google/gemini-2.5-flash'],
  ['api_key: g', undefined],
])('an agent with %s runs on %s, as in the original node', async (fields, model) => {
  await write('agents.yaml', `agents: [{name: a, price: 0, ${fields}}]`)
  const { agents } = await readOriginalConfig(directory)
  expect(agents[0]!.model).toBe(model)
})

test('only one of the two files may be given', async () => {
  await write('mine.yaml', 'agents: [{name: a, price: 0}]')
  expect((await readOriginalConfig(join(directory, 'mine.yaml'))).agents).toMatchObject([
    { name: 'a', description: 'a' },
  ])
})

test.each([
  ['agents: [{name: a, price: 0.0000001}]', /agent a: price/],
  ['agents: [{price: 1}]', /agents\.0\.name/],
  ['agents: [', /agents\.yaml: /],
  ['p2p_port: 70000', /p2p_port/],
])('%s is refused with the file and what is wrong', async (yaml, message) => {
  await write('agents.yaml', yaml)
  await expect(readOriginalConfig(directory)).rejects.toThrow(message)
})

test('a directory without both files is refused', async () => {
  await expect(readOriginalConfig(directory)).rejects.toThrow(/no agents\.yaml and no config\.yaml/)
})
