/** `stoa sell -- program` with programs that are no MCP server. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { cli, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const sell = (...program: string[]) =>
  cli(['sell', '--price', '0', '--yes', '--', ...program], {
    dataDir: dataDir(),
    environment: { PATH: process.env.PATH! },
  })

test('a program that is not there is named', async () => {
  const run = await sell('/nowhere/server')
  expect(run).toMatchObject({ code: 2, stdout: '' })
  expect(run.stderr).toBe('error: the program /nowhere/server cannot be started: ENOENT\n')
})

test.each([
  ['ends', ['-e', 'process.exit(3)']],
  ['prints other things and ends', ['-e', 'console.log("hello")']],
  ['prints other things without an end', ['-e', 'setInterval(() => console.log("hello"), 1)']],
])('a program that %s is no MCP server: it is told how other programs are sold', async (_what, words) => {
  const run = await sell(process.execPath, ...words)
  expect(run).toMatchObject({ code: 2, stdout: '' })
  expect(run.stderr).toMatch(/^error: .*node.* is no MCP server: /)
  expect(run.stderr).toContain('stoa agent config add --command')
  expect(run.stderr).not.toContain('unexpected failure')
  expect(run.stderr.trim().split('\n')).toHaveLength(1)
  expect(await readFile(join(dataDir(), 'agents.yaml'), 'utf8').catch(() => 'none')).toBe('none')
})
