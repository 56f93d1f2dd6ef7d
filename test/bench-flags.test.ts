/** Each bench says what it does and takes, and none begins by mistake. */
import { execFile } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../', import.meta.url))
/** The other files of the folder are parts of these. */
const programs = globSync('bench/*.ts', { cwd: root }).filter((path) =>
  /^(await |const .*readFlags\()/m.test(readFileSync(root + path, 'utf8')),
)

type Run = { status: number | null; stdout: string; stderr: string }
const run = (...args: string[]) =>
  new Promise<Run>((resolve) => {
    const child = execFile(process.execPath, args, { cwd: root }, (_error, stdout, stderr) =>
      resolve({ status: child.exitCode, stdout, stderr }),
    )
  })

test('the programs are found', () => {
  expect(programs).toHaveLength(13)
})

test.each(programs)('%s', async (program) => {
  const help = await run(program, '--help')
  expect(help).toMatchObject({ status: 0, stderr: '' })
  expect(help.stdout).toMatch(new RegExp(`^[A-Z][^]+\n\nUsage: node ${program} \\[flags\\]\n\n( {2}--[^]+)+$`))
  const wrong = await run(program, '--nonsense')
  expect(wrong).toEqual({ status: 2, stdout: '', stderr: `Unknown option '--nonsense' (node ${program} --help)\n` })
})

test('a flag that takes a number refuses a word', async () => {
  const { status, stdout, stderr } = await run('bench/reconcile.ts', '--listings', 'many')
  const said = `--listings takes a number, not "many" (node bench/reconcile.ts --help)\n`
  expect({ status, stdout, stderr }).toEqual({ status: 2, stdout: '', stderr: said })
})
