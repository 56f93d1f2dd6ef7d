import { execFileSync } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { AgentDefinition } from '../schema/agent.ts'
import { addAgentToFile, readAgentsFile, removeAgentFromFile } from './agents-yaml.ts'

let directory: string
let path: string

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-agents-'))
  path = join(directory, 'agents.yaml')
})
afterEach(async () => {
  await chmod(directory, 0o700)
  await rm(directory, { recursive: true })
})

function agent(name: string): AgentDefinition {
  return AgentDefinition.parse({ name, description: 'd', price: 0.5 })
}

test('a missing file has no agents', async () => {
  expect(await readAgentsFile(path)).toEqual([])
})

test('an added agent is there on the next start, in a file that only its owner can read (D12)', async () => {
  await addAgentToFile(path, agent('one'))
  await addAgentToFile(path, agent('two'))
  await addAgentToFile(path, { ...agent('one'), price: 7n })
  expect((await readAgentsFile(path)).map(({ name, price }) => [name, price])).toEqual([
    ['one', 7n],
    ['two', 500000n],
  ])
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect(await readdir(directory)).toEqual(['agents.yaml'])
})

test('a removed agent is gone, and removing an unknown agent leaves the file unchanged', async () => {
  await addAgentToFile(path, agent('one'))
  const before = await readFile(path, 'utf8')
  expect(await removeAgentFromFile(path, 'two')).toBe(false)
  expect(await readFile(path, 'utf8')).toBe(before)
  expect(await removeAgentFromFile(path, 'one')).toBe(true)
  expect(await readAgentsFile(path)).toEqual([])
  expect(await removeAgentFromFile(join(directory, 'none.yaml'), 'one')).toBe(false)
})

test('a file that is not valid is never rewritten', async () => {
  await writeFile(path, 'agents:\n  - nmae: one\n')
  await expect(addAgentToFile(path, agent('two'))).rejects.toThrow(`${path}:2: agents[0]: "nmae" is not known`)
  await expect(removeAgentFromFile(path, 'one')).rejects.toThrow('is not known')
  expect(await readFile(path, 'utf8')).toBe('agents:\n  - nmae: one\n')
  expect(await readdir(directory)).toEqual(['agents.yaml'])
})

test('the mode of the file and a symbolic link to it stay', async () => {
  const real = join(directory, 'real.yaml')
  await writeFile(real, 'agents: []\n')
  await chmod(real, 0o640)
  await symlink(real, path)
  await addAgentToFile(path, agent('one'))
  expect((await readAgentsFile(real)).length).toBe(1)
  expect((await stat(real)).mode & 0o777).toBe(0o640)
})

test('thirty concurrent changes are all stored', async () => {
  const names = Array.from({ length: 30 }, (_, i) => `agent ${i}`)
  await Promise.all(names.map((name) => addAgentToFile(path, agent(name))))
  expect((await readAgentsFile(path)).map(({ name }) => name).sort()).toEqual(names.sort())
  expect(await readdir(directory)).toEqual(['agents.yaml'])
})

test('the lock of a dead process is replaced', async () => {
  await writeFile(`${path}.lock`, 'left behind')
  await Promise.all([addAgentToFile(path, agent('one')), addAgentToFile(path, agent('two'))])
  expect((await readAgentsFile(path)).map(({ name }) => name).sort()).toEqual(['one', 'two'])
  expect(await readdir(directory)).toEqual(['agents.yaml'])
})

test('a directory, a pipe, a file that is too large and a file that is not text are refused with a clear error', async () => {
  await mkdir(path)
  await expect(readAgentsFile(path)).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
  await expect(readAgentsFile(path)).rejects.toThrow(`${path}: this is not a file`)
  await expect(addAgentToFile(path, agent('one'))).rejects.toThrow('is not a file')

  const large = join(directory, 'large.yaml')
  await writeFile(large, '#'.repeat(1024 * 1024 + 1))
  await expect(readAgentsFile(large)).rejects.toThrow('is larger than 1024 KiB')

  const binary = join(directory, 'binary.yaml')
  await writeFile(binary, Buffer.from([0x61, 0xff, 0xfe]))
  await expect(readAgentsFile(binary)).rejects.toThrow('is not UTF-8 text')

  if (process.platform !== 'win32') {
    const pipe = join(directory, 'pipe.yaml')
    execFileSync('mkfifo', [pipe])
    await expect(readAgentsFile(pipe)).rejects.toThrow('is not a file')
  }
})

test('a file with a byte order mark and CRLF is read', async () => {
  await writeFile(path, '\ufeffagents:\r\n  - name: a\r\n    description: d\r\n    price: 1\r\n')
  expect((await readAgentsFile(path))[0]).toEqual({ name: 'a', description: 'd', price: 1000000n })
})

test('a file that would grow over its limit is not written', async () => {
  const filler = `# ${'x'.repeat(1024 * 1024 - 20)}\n`
  await writeFile(path, filler)
  await expect(addAgentToFile(path, agent('one'))).rejects.toThrow('is larger than 1024 KiB')
  expect(await readFile(path, 'utf8')).toBe(filler)
})

test('the error names a missing directory as the reason', async () => {
  await expect(addAgentToFile(join(directory, 'none', 'agents.yaml'), agent('one'))).rejects.toMatchObject({
    code: 'AGENTS_FILE_UNWRITABLE',
    message: expect.stringContaining('its directory does not exist'),
  })
})

test.skipIf(process.getuid?.() === 0)('the error names a missing write permission as the reason', async () => {
  await chmod(directory, 0o500)
  await expect(addAgentToFile(path, agent('one'))).rejects.toThrow('permission denied')
})

const metered = `agents:
  - name: writer
    description: writes
    model: openai/gpt-5-mini
    # by use
    pricing:
      per_1k_input_tokens: 0.0010
      per_1k_output_tokens: 0.004
      max: 0.05
`

test('ADR-37 prices by use are read, and a change keeps how they are written', async () => {
  await writeFile(path, metered)
  const [read] = await readAgentsFile(path)
  const pricing = { per_1k_input_tokens: 1_000n, per_1k_output_tokens: 4_000n, max: 50_000n }
  expect(read).toMatchObject({ pricing })
  expect(read).not.toHaveProperty('price')
  await addAgentToFile(path, { ...read!, description: 'writes more' })
  expect(await readFile(path, 'utf8')).toBe(metered.replace('description: writes', 'description: writes more'))
  await addAgentToFile(path, { ...read!, price: 60_000n, pricing: { per_second: 5n, max: 60_000n } })
  expect((await readAgentsFile(path))[0]).toMatchObject({ price: 60_000n, pricing: { per_second: 5n, max: 60_000n } })
})

test('ADR-37 prices that cannot be are refused with what to do', async () => {
  const problems: [string, string][] = [
    ['pricing: { per_second: 0.001 }', 'max is missing'],
    ['pricing: { max: 0.05 }', 'give at least one of per_call'],
    ['pricing: { per_call: 0.06, max: 0.05 }', 'per_call is above max'],
    ['pricing: { per_minute: 0.06, max: 0.05 }', '"per_minute" is not known: expected per_call'],
    ['pricing: { per_call: -1, max: 0.05 }', 'is not valid'],
    ['pricing: { per_call: 0.0000001, max: 0.05 }', 'is not valid'],
    ['pricing: 0.05', 'expected prices in USDC by use'],
    ['pricing: { per_call: 0.01, max: 0.05 }\n    price: 0.01', 'set price to 0.05 USDC or more'],
    ['pricing: { per_call: 0.01, max: 0.05 }\n    price: 0', 'a free agent has no pricing'],
    ['pricing: { per_1k_input_tokens: 0.01, max: 0.05 }\n    command: [echo]', 'command counts no tokens'],
    [
      'pricing: { per_1k_output_tokens: 0.01, max: 0.05 }\n    model: builtin/echo',
      'a built-in agent counts no tokens',
    ],
    ['tags: [a]', 'price is missing'],
  ]
  for (const [fields, problem] of problems) {
    await writeFile(path, `agents:\n  - name: a\n    description: b\n    ${fields}\n`)
    await expect(readAgentsFile(path), fields).rejects.toThrow(problem)
  }
})
