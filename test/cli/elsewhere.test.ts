/** Every command drives a node elsewhere, by its address and a token. */
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { commands } from '../../src/cli/commands.ts'
import { systemParts } from '../../src/cli/parts.ts'
import { startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { cli } from './harness.ts'

let node: TestNode
let token: string
let dataDir: string
beforeAll(async () => {
  node = await startTestNode({ key: generatePrivateKey(), apiEnabled: true, requireToken: true })
  await node.registerAgent({ name: 'Echo', description: 'repeats', price: 0n, model: 'builtin/echo' })
  dataDir = await testDir()
  const made = await cli(['token', 'create', '--name', 't', '--scope', 'admin', '--json'], {
    dataDir: node.dataDir,
    parts: systemParts,
  })
  token = (JSON.parse(made.stdout) as { token: string }).token
})
afterAll(stopTestNodes)

const run = (argv: string[], environment: Record<string, string> = {}) =>
  cli(argv, { dataDir, parts: systemParts, environment })

test('--api-url and --token, or STOA_API_URL and STOA_API_TOKEN, name a node on another machine', async () => {
  const flags = ['--api-url', node.apiUrl!, '--token', token]
  const status = await run(['status', '--json', ...flags])
  expect(JSON.parse(status.stdout)).toMatchObject({ peer_id: node.peerId })
  const environment = { STOA_API_URL: `${node.apiUrl}/`, STOA_API_TOKEN: token }
  expect((await run(['agent', 'list'], environment)).stdout).toMatch(/^Echo +free/m)
  const done = await run(['agent', 'execute', '--agent-id', 'Echo', '--task', 'hello'], environment)
  expect(done).toMatchObject({ code: 0, stdout: 'hello\n' })
  const doctor = await run(['doctor', '--json'], environment)
  const { checks } = JSON.parse(doctor.stdout) as { checks: { id: string; text: string }[] }
  expect(checks.find(({ id }) => id === 'agents')?.text).toBe('1, and all can run')
  expect(checks.map(({ id }) => id)).not.toContain('key_files')
})

test('the flag overrides the variable, and errors of both are reported', async () => {
  const environment = { STOA_API_URL: 'http://127.0.0.1:1', STOA_API_TOKEN: token }
  expect(await run(['status', '--json'], environment)).toMatchObject({ code: 6 })
  expect(await run(['status', '--json', '--api-url', node.apiUrl!], environment)).toMatchObject({ code: 0 })
  const wrong = await run(['status', '--api-url', node.apiUrl!, '--token', 'wrong-token-0123456789'])
  expect(wrong).toMatchObject({ code: 4, stderr: expect.stringContaining('token') })
  expect(wrong.stderr).not.toContain('wrong-token-0123456789')
  expect(await run(['status', '--token', token])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--api-url'),
  })
  expect(await run(['status'], { STOA_API_URL: 'nonsense' })).toMatchObject({ code: 2 })
})

test('a refused token is no silent node, also on the directory of the node', async () => {
  const environment = { NODE_API_TOKEN: 'wrong-token-0123456789' }
  const wrong = await cli(['status'], { dataDir: node.dataDir, parts: systemParts, environment })
  expect(wrong).toMatchObject({ code: 4, stderr: expect.stringContaining('the token is not the one') })
  expect(wrong.stderr).not.toContain('does not answer')
})

test('an https:// address of a node without TLS is refused in words', async () => {
  const wrong = await run(['status', '--api-url', node.apiUrl!.replace('http:', 'https:')])
  expect(wrong).toMatchObject({ code: 6, stderr: expect.stringContaining('http:// instead of https://') })
  expect(wrong.stderr).not.toContain('openssl')
})

test('no temporary node replaces a remote node that is unreachable', async () => {
  const argv = ['agent', 'execute', '--agent-id', 'Echo', '--task', 'x', '--api-url', 'http://127.0.0.1:1']
  expect(await run(argv)).toMatchObject({ code: 6, stderr: expect.stringContaining('http://127.0.0.1:1') })
})

test('every command accepts these flags, except commands that work on files and processes of this machine', () => {
  const without = commands.filter(({ options }) => !('apiUrl' in options)).map(({ name }) => name)
  expect(without.toSorted()).toEqual(
    [
      ...['agent config add', 'agent config list', 'agent config remove'],
      ...['completion', 'init', 'ledger adopt', 'ledger copy', 'logs', 'sell', 'start', 'stop', 'worker'],
    ].toSorted(),
  )
})
