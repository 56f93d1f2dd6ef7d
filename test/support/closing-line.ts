import type { Reporter, TestCase, TestModule } from 'vitest/node'

/**
 * Ends a run with `tests: N passed, N failed, N skipped`, a line that log readers can find. Above it stand the tests that
 * passed only when they were tried again, with what they failed by: each is a defect of the product or of the test.
 */
export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const count = { passed: 0, failed: unhandledErrors.length, skipped: 0, pending: 0 }
    const unsteady: TestCase[] = []
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        count[test.result().state]++
        if (test.diagnostic()?.flaky === true) unsteady.push(test)
      }
      if (module.errors().length > 0) count.failed++
    }
    if (unsteady.length > 0) process.stdout.write(`\nPassed only when tried again:\n${unsteady.map(told).join('')}`)
    process.stdout.write(`\ntests: ${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped\n`)
  }
}

const told = (test: TestCase) =>
  `  ${test.module.relativeModuleId} > ${test.fullName}\n    ${test.result().errors?.[0]?.message ?? 'no message'}\n`
