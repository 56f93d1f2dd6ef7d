import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { silentLogger } from '../lib/logger.ts'
import { moduleRuntime } from './module-agent.ts'

const directory = mkdtempSync(join(tmpdir(), 'stoa-module-'))
const call = { input: 'hello', callerId: 'local', history: [], signal: new AbortController().signal }

function agent(file: string, source?: string) {
  const path = join(directory, file)
  if (source !== undefined) writeFileSync(path, source)
  return moduleRuntime({ name: 'a', path }, { logger: silentLogger })
}

test('D10: the default export of a module is called with the task, and with who asks', async () => {
  const source = `export default async (task, { callerId }) => task.toUpperCase() + ' ' + callerId\n`
  const shout = await agent('shout.mjs', source)
  expect(shout).toMatchObject({ model: 'module' })
  expect(shout.notice).toBeUndefined()
  expect(await shout.run(call)).toBe('HELLO local')
})

test('T20: a file that is not there is told the operator, and none of its path a buyer', async () => {
  const missing = await agent('missing.mjs')
  expect(missing.notice).toContain(join(directory, 'missing.mjs'))
  const failed = await missing.run(call).catch((error: unknown) => error)
  expect(failed).toMatchObject({ code: 'AGENT_NOT_RUNNABLE' })
  expect(String(failed)).not.toContain(directory)
})

test.each([
  ['one without a function', 'export default 1\n'],
  ['one that cannot be read', 'export default (\n'],
])('%s has nothing to run', async (_, source) => {
  const broken = await agent(`${source.length}.mjs`, source)
  await expect(broken.run(call)).rejects.toMatchObject({ code: 'AGENT_NOT_RUNNABLE' })
})

test('what the function throws is not about the module', async () => {
  const throwing = await agent('throwing.mjs', `export default () => { throw new Error('of its own') }\n`)
  await expect(throwing.run(call)).rejects.toThrow('of its own')
})
