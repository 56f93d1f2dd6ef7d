/** What a newcomer types first, and what is said to it. */
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { modelsOf } from '../../src/agents/model-server.ts'
import { shareText } from '../../src/cli/text/start-summary.ts'
import { cli, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const root = new URL('../..', import.meta.url).pathname
const signal = new AbortController().signal

test.each([
  [['discover'], 'use stoa agent discover'],
  [['execute'], 'use stoa agent execute'],
  [['agent', 'balance'], undefined],
  [['show'], 'Did you mean stoa order show'],
  [['agents', 'list'], 'Did you mean stoa agent?'],
  [['agnt', 'list'], 'Did you mean stoa agent?'],
  [['orders'], 'Did you mean stoa order?'],
])('%j suggests whole commands: %s', async (words, suggestion) => {
  const { code, stderr } = await cli(words, { dataDir: dataDir() })
  expect(code).toBe(2)
  if (suggestion !== undefined) expect(stderr).toContain(suggestion)
})

test.each([
  ['order show', '<id>'],
  ['agent pause', '<agent>'],
  ['payment show', '<id>'],
  ['wallet', '[what]'],
  ['agent discover', '[query]'],
])('the help of %s shows its argument: %s', async (name, word) => {
  const { stdout } = await cli([...name.split(' '), '--help'], { dataDir: dataDir() })
  expect(stdout).toContain(`Usage: stoa ${name} [options] ${word}`)
})

test.runIf(process.platform === 'linux')('a temporary folder that is not writable stops no command', () => {
  const env = { ...process.env, TMPDIR: '/proc' }
  const { status, stdout } = spawnSync(process.execPath, [join(root, 'bin/stoa.js'), '--version'], {
    env,
    timeout: 120_000,
  })
  expect({ status, version: `${stdout}`.trim() }).toMatchObject({ status: 0, version: expect.stringMatching(/^\d/) })
})

test('the next commands of init name the given data directory', async () => {
  const elsewhere = join(dataDir(), 'a node')
  const { stdout } = await cli(['init', '--yes', '--data-dir', elsewhere], {})
  expect(stdout).toContain(`stoa start --data-dir '${elsewhere}'`)
  expect((await cli(['init', '--yes'], { dataDir: dataDir() })).stdout).toMatch(/stoa start +start the node/)
})

test('init tests the URL and key of an OpenAI-compatible server, and reports errors', async () => {
  const server = createServer((request, response) => {
    if (request.headers.authorization !== 'Bearer good-key') return response.writeHead(401).end()
    if (request.url !== '/v1/models') return response.writeHead(404).end()
    return response.setHeader('content-type', 'application/json').end('{"data":[{"id":"qwen3"},{"id":"llama4"}]}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const ask = (baseUrl: string, key: string | undefined) => modelsOf(fetch, { baseUrl, key }, signal)
  expect(await ask(`${url}/v1/`, 'good-key')).toEqual({ models: ['qwen3', 'llama4'] })
  expect(await ask(`${url}/v1`, 'bad-key')).toEqual({ problem: 'it refuses the key (HTTP 401)' })
  expect(await ask(url, 'good-key')).toEqual({ problem: expect.stringContaining('ends in /v1 as a rule') })
  const argv = ['init', '--yes', '--provider', 'openai-compatible', '--model-url', `${url}/v1`]
  const options = { dataDir: dataDir(), parts: { fetch } }
  expect(await cli(argv, options)).toMatchObject({ code: 0, stderr: expect.stringContaining('refuses the key') })
  server.close()
  server.closeAllConnections()
  expect(await ask(`${url}/v1`, 'good-key')).toEqual({ problem: expect.stringContaining('cannot be reached') })
})

test('one address is shown to share, with a hint to the others', () => {
  expect(shareText(['/ip4/203.0.113.7/tcp/4001/p2p/12D3', 'b', 'c'])).toBe(
    '/ip4/203.0.113.7/tcp/4001/p2p/12D3  (2 more: stoa status --json)',
  )
  expect([shareText(['a']), shareText([])]).toEqual(['a', 'no address yet'])
})

test('a checkout without packages shows its version and what to run', () => {
  const copy = mkdtempSync(join(tmpdir(), 'stoa-checkout-'))
  for (const name of ['bin', 'package.json', 'src/main.ts'])
    cpSync(join(root, name), join(copy, name), { recursive: true })
  const run = (...words: string[]) =>
    spawnSync(process.execPath, [join(copy, 'bin/stoa.js'), ...words], { encoding: 'utf8' })
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  expect(run('--version')).toMatchObject({ status: 0, stdout: `${version}\n` })
  expect(run('start')).toMatchObject({ status: 1, stderr: expect.stringContaining('npm install') })
  rmSync(copy, { recursive: true })
})

/** Runs the file here, where Node says to be another version. */
function runAs(version: string, ...words: string[]) {
  const other = `Object.defineProperty(process.versions, 'node', { value: '${version}' })`
  const preload = `data:text/javascript,${encodeURIComponent(other)}`
  return spawnSync(process.execPath, ['--import', preload, join(root, 'bin/stoa.js'), ...words], { encoding: 'utf8' })
}

test('an old Node.js gets an error that says how to get a newer version', () => {
  const stderr = expect.stringMatching(/22\.18 or newer.*https:\/\/nodejs\.org/s)
  expect(runAs('20.11.0', '--version')).toMatchObject({ status: 1, stderr })
})

test('a checkout under Node.js 22, which does not know the syntax of the source, says what to type', () => {
  expect(runAs('22.20.0', 'status')).toMatchObject({ status: 1, stderr: expect.stringMatching(/Node\.js 24.*npx \./s) })
})

test('npm install in a checkout prints no warnings', () => {
  const level = execFileSync('npm', ['config', 'get', 'loglevel'], { cwd: root, encoding: 'utf8' })
  expect(level.trim()).toBe('error')
})

test('every page of docs/ that a help page names exists', async () => {
  const { commands } = await import('../../src/cli/commands.ts')
  const named = new Set(commands.flatMap((row) => `${row.details} ${row.summary}`.match(/docs\/[\w-]+\.md/g) ?? []))
  expect(named.size).toBeGreaterThan(0)
  for (const page of named) expect(existsSync(join(root, page)), page).toBe(true)
})

test('init reports a provider without a key, unless the key is set', async () => {
  const init = (environment: Record<string, string>, ...argv: string[]) =>
    cli(['init', '--yes', ...argv], { dataDir: dataDir(), environment })
  expect((await init({}, '--provider', 'openai')).stdout).toMatch(
    /! the key of openai is missing: .*--model-key-file.*OPENAI_API_KEY/,
  )
  expect((await init({ OPENAI_API_KEY: 'sk-1' }, '--provider', 'openai')).stdout).not.toContain('the key of')
  expect((await init({}, '--provider', 'openai-compatible')).stdout).toContain('--model-url')
  expect((await init({}, '--provider', 'ollama')).stdout).not.toContain('the key of')
})

test('an agent without a model key names the command that asks for the key', async () => {
  const argv = ['--name', 'A', '--description', 'd', '--price', '0.02', '--model', 'openai/gpt-5-mini']
  const { stderr } = await cli(['agent', 'config', 'add', ...argv], { dataDir: dataDir() })
  expect(stderr).toContain('set OPENAI_API_KEY (stoa init --provider openai asks for it)')
})

test('webhook add says how to set a missing variable of its key', async () => {
  const argv = ['webhook', 'add', '--url', 'https://example.org/', '--event', 'order', '--secret-env', 'HOOK_SECRET']
  const { code, stderr } = await cli(argv, { dataDir: dataDir() })
  expect(code).toBe(2)
  expect(stderr).toContain(
    'HOOK_SECRET is not set here: set a new key with export HOOK_SECRET="$(openssl rand -base64 32)"',
  )
})
