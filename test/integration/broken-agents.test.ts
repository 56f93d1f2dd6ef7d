/** What cannot run is not sold, and its operator is told why. */
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, expect, test } from 'vitest'
import { systemParts } from '../../src/cli/parts.ts'
import { readAgentsFile } from '../../src/config/agents-yaml.ts'
import type { AgentDefinition } from '../../src/schema/agent.ts'
import { cli } from '../cli/harness.ts'
import { startTestNode, stopTestNodes, testDir } from '../support/loopback-node.ts'

afterAll(stopTestNodes)

const base = { description: 'd', price: 10_000n }
const ok: AgentDefinition = { name: 'Good', ...base, model: 'builtin/echo' }

test('at the start of a node: a program, a script, a module or a model key that is missing keeps its agent off the market, with the reason', async () => {
  const dataDir = await testDir()
  await writeFile(join(dataDir, 'broken.mjs'), 'export default (\n')
  await writeFile(join(dataDir, 'plain.txt'), 'no program')
  await chmod(join(dataDir, 'plain.txt'), 0o644)
  const broken: [AgentDefinition, RegExp][] = [
    [{ name: 'Words', ...base, command: ['python3 agent.py'] }, /each word by itself.*\[python3, agent\.py\]/],
    [{ name: 'Program', ...base, command: ['no-such-program'] }, /no program no-such-program in PATH/],
    [{ name: 'Path', ...base, command: ['/no/such/program'] }, /no program \/no\/such\/program: correct/],
    [{ name: 'Plain', ...base, command: [join(dataDir, 'plain.txt')] }, /chmod \+x/],
    [{ name: 'Script', ...base, command: [process.execPath, 'gone.js'] }, /no file .*gone\.js/],
    [{ name: 'Module', ...base, module: 'gone.mjs' }, /no file .*gone\.mjs/],
    [{ name: 'Unloadable', ...base, module: 'broken.mjs' }, /module: /],
    [{ name: 'Key', ...base, model: 'anthropic/x' }, /ANTHROPIC_API_KEY/],
    [{ name: 'Typo', ...base, model: 'builtin/nothing' }, /no builtin\/nothing/],
    [{ name: 'Tool', ...base, model: 'ollama/x', mcp: [{ command: ['no-such-server'] }] }, /no-such-server/],
  ]
  const node = await startTestNode({ key: generatePrivateKey(), dataDir, apiEnabled: true })
  for (const definition of [ok, ...broken.map(([definition]) => definition)]) await node.ownAgents.keep(definition)
  expect(node.listings().map(({ name }) => name)).toEqual(['Good'])
  for (const [{ name }, reason] of broken) {
    const agent = node.ownAgents.list().find((own) => own.name === name)
    expect(agent).toMatchObject({ listed: false, runnable: false, notice: expect.stringMatching(reason) })
    // Whoever knows its id from before finds nobody there to pay.
    const ask = node.execute({ agentId: agent!.id, input: 'x', signal: AbortSignal.timeout(60_000) })
    await expect(ask).rejects.toThrow()
  }
  const list = await cli(['agent', 'list'], { dataDir, parts: systemParts })
  expect(list.stdout).toMatch(/Good +0\.01 USDC +on sale/)
  expect(list.stdout).toMatch(/Words +0\.01 USDC +cannot run/)
  expect(list.stderr).toContain('Words: command: there is no program')
  // A price is changed while it is mended; what it runs must be there.
  const [words] = node.ownAgents.list().filter(({ name }) => name === 'Key')
  expect(await node.ownAgents.update(words!.id, { price: 5n })).toMatchObject({ price: 5n, listed: false })
  await expect(node.ownAgents.update(words!.id, { model: 'anthropic/y' })).rejects.toThrow('ANTHROPIC_API_KEY')
  expect(await node.ownAgents.update(words!.id, { model: 'builtin/echo' })).toMatchObject({ listed: true })
})

test('while a node runs: what cannot run is refused with the reason, and kept nowhere', async () => {
  const node = await startTestNode({ key: generatePrivateKey(), apiEnabled: true })
  const refused = node.registerAgent({ name: 'Words', ...base, command: ['python3 agent.py'] })
  await expect(refused).rejects.toMatchObject({ code: 'AGENT_NOT_RUNNABLE' })
  const body = JSON.stringify({ name: 'Key', description: 'd', price: 0.01, model: 'openai/gpt-4o' })
  const response = await fetch(`${node.apiUrl}/agents`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  expect([response.status, await response.text()]).toEqual([400, expect.stringContaining('OPENAI_API_KEY')])
  expect(node.ownAgents.list()).toEqual([])
  expect(await readAgentsFile(join(node.dataDir, 'agents.yaml'))).toEqual([])
})

test('stoa agent config add refuses a program that is not there, and keeps an agent whose key the node may have', async () => {
  const dataDir = await testDir()
  const add = (...argv: string[]) =>
    cli(['agent', 'config', 'add', '--name', 'A', '--description', 'd', '--price', '1', ...argv], { dataDir })
  expect(await add('--command', 'python3 agent.py')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--command python3 --command agent.py'),
  })
  expect(await add('--instructions-file', join(dataDir, 'gone.md'), '--model', 'ollama/x')).toMatchObject({ code: 2 })
  expect(await add('--model', 'openai/gpt-4o')).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('OPENAI_API_KEY'),
  })
  await mkdir(join(dataDir, 'texts'))
  await writeFile(join(dataDir, 'texts', 'a.md'), 'Be kind.')
  const path = join(dataDir, 'texts', 'a.md')
  const told = ['--instructions-file', path, '--model', 'ollama/x', '--temperature', '0.3', '--reasoning', 'low']
  expect(await add(...told)).toMatchObject({ code: 0 })
  expect(await readAgentsFile(join(dataDir, 'agents.yaml'))).toMatchObject([
    { instructions_file: path, temperature: 0.3, reasoning: 'low' },
  ])
})
