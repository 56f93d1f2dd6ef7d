/**
 * Runs the tests, with the arguments of `vitest run`.
 *
 * With STOA_TEST_RETRIES=1 a test that failed is tried once more where it is. If it fails again, its whole file runs once more
 * from the start, in another process: what the first tries left behind in memory, in ledgers and on chains is not there.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createVitest, parseCLI, type Vitest } from 'vitest/node'

/** More files than this have failed by themselves. */
const FILES_AGAIN_MAX = 12

Object.assign(process.env, { TEST: 'true', VITEST: 'true' })
process.env.NODE_ENV ??= 'test'
// The process of each file of tests loads the same packages.
const compiled = mkdtempSync(join(tmpdir(), 'stoa-tests-compiled-'))
process.on('exit', () => rmSync(compiled, { recursive: true, force: true }))
process.env.NODE_COMPILE_CACHE ??= compiled
const { filter, options } = parseCLI(['vitest', 'run', ...process.argv.slice(2)])
const vitest = await createVitest({ ...options, watch: false })
try {
  const { unhandledErrors } = await vitest.start(filter)
  if (Number(process.env.STOA_TEST_RETRIES ?? 0) > 0 && unhandledErrors.length === 0) await runAgain(vitest)
} finally {
  await vitest.exit()
}

/** Runs each file again that has failed. */
async function runAgain(vitest: Vitest): Promise<void> {
  const failed = vitest.state.getTestModules().filter((module) => !module.ok())
  if (failed.length === 0 || failed.length > FILES_AGAIN_MAX) return
  process.exitCode = 0
  await vitest.runTestSpecifications(failed.map((module) => module.toTestSpecification()))
}
