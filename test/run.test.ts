import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'

const home = join(import.meta.dirname, '..')

/** Runs tests of a directory of their own, as CI does. @param isMended whether the file passes when it runs again */
async function run(isMended: boolean): Promise<{ code: unknown; said: string }> {
  const dir = await mkdtemp(join(tmpdir(), 'stoa-run-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  await symlink(join(home, 'node_modules'), join(dir, 'node_modules'))
  const reporter = join(home, 'test/support/closing-line.ts')
  const settings = { reporters: [reporter], retry: 1 }
  await writeFile(join(dir, 'vitest.config.mjs'), `export default { test: ${JSON.stringify(settings)} }`)
  const marks = JSON.stringify(join(dir, 'runs'))
  await writeFile(
    join(dir, 'spoilt.test.ts'),
    `import { appendFileSync, existsSync } from 'node:fs'
    import { expect, test } from 'vitest'
    const isFirst = !existsSync(${marks})
    appendFileSync(${marks}, 'x')
    test('spoils its file', () => expect(isFirst || !${isMended}).toBe(false))
    test('is sound', () => {})`,
  )
  await writeFile(join(dir, 'sound.test.ts'), `import { test } from 'vitest'\ntest('is sound too', () => {})`)
  const { PATH = '', HOME = '' } = process.env
  const args = ['--no-warnings', join(home, 'test/run.ts'), '--root', dir, '--config', join(dir, 'vitest.config.mjs')]
  return new Promise((resolve) => {
    const env = { PATH, HOME, STOA_TEST_RETRIES: '1' }
    execFile(process.execPath, args, { env, cwd: dir }, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, said: stdout + stderr }),
    )
  })
}

test('a file with a test that fails twice runs again from its start, and the last line counts how it ended then', async () => {
  const { code, said } = await run(true)
  expect(said.trim().split('\n').at(-1)).toBe('tests: 3 passed, 0 failed, 0 skipped')
  expect(said).toContain('Passed only when tried again:\n  spoilt.test.ts > spoils its file\n')
  expect(code).toBe(0)
})

test('a file that fails again fails the run', async () => {
  const { code, said } = await run(false)
  expect(said.trim().split('\n').at(-1)).toBe('tests: 2 passed, 1 failed, 0 skipped')
  expect(code).toBe(1)
})
