import type { Reporter, TestModule } from 'vitest/node'

type Count = Record<'passed' | 'failed' | 'skipped' | 'pending', number>
/** How a file has ended. */
type End = {
  count: Count
  /** What each test has failed by, also in an earlier run of the file. */
  failures: ReadonlyMap<string, string>
  unsteady: readonly string[]
}

/**
 * Ends a run with `tests: N passed, N failed, N skipped`, a line that log readers can find. Above it stand the tests that
 * passed only when they were tried again, with what they failed by: each is a defect of the product or of the test. If a file
 * runs again, the last line counts how it ended then.
 */
export default class ClosingLine implements Reporter {
  readonly #ends = new Map<string, End>()
  #errors = 0

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    this.#errors += unhandledErrors.length
    for (const module of modules) this.#ends.set(module.id, endOf(module, this.#ends.get(module.id)))
    const ends = [...this.#ends.values()]
    const unsteady = ends.flatMap((end) => end.unsteady)
    if (unsteady.length > 0) process.stdout.write(`\nPassed only when tried again:\n${unsteady.join('')}`)
    const sum = (state: keyof Count) => ends.reduce((all, { count }) => all + count[state], 0)
    const failed = sum('failed') + this.#errors
    process.stdout.write(`\ntests: ${sum('passed')} passed, ${failed} failed, ${sum('skipped')} skipped\n`)
  }
}

function endOf(module: TestModule, before: End | undefined): End {
  const count: Count = { passed: 0, failed: 0, skipped: 0, pending: 0 }
  const failures = new Map(before?.failures)
  const unsteady: string[] = []
  const note = (name: string, isFailed: boolean, isTriedAgain: boolean, message: string | undefined) => {
    const said = message ?? failures.get(name) ?? 'no message'
    if (isFailed) failures.set(name, said)
    else if (isTriedAgain || before?.failures.has(name)) unsteady.push(`  ${name}\n    ${said}\n`)
  }
  for (const test of module.children.allTests()) {
    const { state, errors } = test.result()
    count[state]++
    const isFlaky = test.diagnostic()?.flaky === true
    if (state !== 'skipped') {
      note(`${module.relativeModuleId} > ${test.fullName}`, state === 'failed', isFlaky, errors?.[0]?.message)
    }
  }
  const errors = module.errors()
  if (errors.length > 0) count.failed++
  note(module.relativeModuleId, errors.length > 0, false, errors[0]?.message)
  return { count, failures, unsteady }
}
