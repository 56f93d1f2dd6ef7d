import { configDefaults, defineConfig } from 'vitest/config'

const inBrowser = 'test/browser/**/*.test.ts'

export default defineConfig({
  test: {
    reporters: ['default', './test/support/closing-line.ts'],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // Test files at once. Many of them start nodes and a chain: one at a time where a failure costs more than time.
    maxWorkers: Number(process.env.STOA_TEST_WORKERS ?? 2),
    // A second try, where one of 5,000 tests that waited too long would refuse a day of work. It is told at the end.
    retry: Number(process.env.STOA_TEST_RETRIES ?? 0),
    projects: [
      {
        extends: true,
        test: {
          name: 'node',
          include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'devnet/**/*.test.ts', 'dashboard/**/*.test.ts'],
          exclude: [...configDefaults.exclude, inBrowser],
          // Starts a PostgreSQL when the first test asks for one.
          globalSetup: 'test/support/postgres-setup.ts',
        },
      },
      {
        extends: true,
        // Builds the dashboard and unpacks Chromium, where a test that needs them runs.
        test: { name: 'browser', include: [inBrowser], globalSetup: 'test/support/browser-setup.ts' },
      },
    ],
  },
})
