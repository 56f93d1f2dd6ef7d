/** What the command says on platforms that lack something. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, expect, test } from 'vitest'
import { killNodeProcesses, startNodeProcess } from '../support/node-process.ts'
import { until } from '../support/until.ts'

const program = fileURLToPath(new URL('../../bin/stoa.js', import.meta.url))
const scratch = mkdtempSync(join(tmpdir(), 'stoa-platforms-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))
afterEach(killNodeProcesses)

const module = (text: string) => `--import=data:text/javascript,${encodeURIComponent(text)}`
const run = (args: string[], options: { env?: NodeJS.ProcessEnv } = {}) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { env: {}, encoding: 'utf8', ...options })
  return { status, stdout, stderr }
}

test('Windows is refused before anything is written', () => {
  const home = mkdtempSync(join(scratch, 'home-'))
  const windows = module(`Object.defineProperty(process, 'platform', { value: 'win32' })`)
  const env = { HOME: home, TMPDIR: home, NODE_DATA_DIR: join(home, 'data') }
  const { status, stderr } = run([windows, program, 'start'], { env })
  expect({ status, stderr }).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(/does not run on Windows.*\n.*Linux/),
  })
  expect(readdirSync(home)).toEqual([])
})

test('without HOME the home directory of the user is taken', () => {
  const { stdout, stderr } = run([program, 'status', '--json'], { env: { TMPDIR: scratch } })
  // A node may run on it.
  expect(stdout + stderr).toContain(join(userInfo().homedir, '.stoa'))
})

// Only root may become another user.
test.skipIf(process.getuid?.() !== 0)('a user without HOME and without an entry in passwd is told what to set', () => {
  // Only the question for the home directory comes from that user: it may not be allowed to read this folder.
  const asNobody = module(`import os from 'node:os'
    import { syncBuiltinESMExports } from 'node:module'
    const homedir = os.homedir
    os.homedir = () => {
      process.seteuid(54_321)
      try { return homedir() } finally { process.seteuid(0) }
    }
    syncBuiltinESMExports()`)
  const { status, stderr } = run([asNobody, program, 'status'], { env: { TMPDIR: scratch } })
  expect(stderr).toMatch(/^error: this user has no home directory: set HOME .*--data-dir or NODE_DATA_DIR/)
  expect(status).toBeGreaterThan(0)
})

test('a warning that is not about SQLite reaches the terminal', () => {
  const { stderr } = run([module(`process.emitWarning('seen')`), program, '--help'])
  expect(stderr).toContain('Warning: seen')
})

test('without native secp256k1 the node and its doctor say that it is slower', async () => {
  const NODE_OPTIONS = module(`import { registerHooks } from 'node:module'
    const resolve = (name, context, next) => {
      if (name === 'secp256k1/bindings.js') throw new Error('no native build')
      return next(name, context)
    }
    registerHooks({ resolve })`)
  const dataDir = join(scratch, 'slow')
  const node = await startNodeProcess({ program, args: ['--data-dir', dataDir], environment: { NODE_OPTIONS } })
  await until(() => node.log().includes('no native secp256k1, so the node checks payments 20 to 30 times slower'))
  await node.stop()
  const doctor = ['doctor', '--json', '--data-dir', dataDir]
  const signatures = (env: NodeJS.ProcessEnv) =>
    (JSON.parse(run([program, ...doctor], { env }).stdout) as { checks: { id: string; state: string }[] }).checks.find(
      ({ id }) => id === 'signatures',
    )
  expect(signatures({ NODE_OPTIONS })).toMatchObject({ state: 'warn' })
  expect(signatures({})).toMatchObject({ state: 'ok' })
})

test('a node whose files are all in use when it looks for native secp256k1 lives on, and looks again', async () => {
  const NODE_OPTIONS = module(`import { registerHooks } from 'node:module'
    let isFull = true
    const resolve = (name, context, next) => {
      if (name === 'secp256k1/bindings.js') throw new Error('no native build')
      if (name === '@noble/curves/secp256k1.js' && context.conditions.includes('require') && isFull) {
        isFull = false
        throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' })
      }
      return next(name, context)
    }
    registerHooks({ resolve })`)
  const args = ['--data-dir', join(scratch, 'full')]
  const node = await startNodeProcess({ program, args, environment: { NODE_OPTIONS } })
  await until(() => node.log().includes('no native secp256k1') || node.child.exitCode !== null)
  expect(node.log()).not.toMatch(/^fatal/m)
  await node.stop()
  expect((await node.exited).code).toBe(0)
})
