import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { checkProgram } from './program.ts'

const dir = mkdtempSync(join(tmpdir(), 'stoa-program-'))
const tool = join(dir, 'tool')
writeFileSync(tool, '#!/bin/sh\n')
chmodSync(tool, 0o755)
const script = join(dir, 'agent.py')
writeFileSync(script, '')
writeFileSync(join(dir, 'python3'), '#!/bin/sh\n')
chmodSync(join(dir, 'python3'), 0o755)
const check = (...command: string[]) =>
  checkProgram(command, (name) => (name === 'PATH' ? `/nowhere:${dir}` : undefined))

test.each([
  [['tool']],
  [[tool]],
  [['tool', 'gone.py']],
  [['python3', script]],
  [['python3', '-m', 'agent']],
  [['python3']],
])('%j can be started', async (command) => {
  expect(await check(...command)).toBeUndefined()
})

test.each([
  [['python3 agent.py'], 'command: [python3, agent.py]'],
  [['gone'], 'there is no program gone in PATH: install it, or give its full path'],
  [[join(dir, 'gone')], 'correct the path'],
  [[script], `chmod +x ${script}`],
  [['python3', 'gone.py'], 'gone.py: give its full path'],
  [[dir], 'there is no program'],
])('%j cannot, and it is said why: %s', async (command, reason) => {
  expect(await check(...command)).toContain(reason)
})
