import { configDefaults, defineConfig } from 'vitest/config'

const inBrowser = 'test/browser/**/*.test.ts'
/** What the engine of the ledger matters most to: paid calls, and nodes that are killed and start again. */
const onBothEngines = [
  ...[
    'paid-call',
    'crash-matrix',
    'crash-once',
    'channel-calls',
    'channel-crash-seller',
    'channel-crash-buyer',
    'channel-crash-exit',
    'channel-crash-stream',
  ],
].map((name) => `test/integration/${name}.test.ts`)
const isOnServer = process.env.STOA_TEST_ENGINE === 'postgres'
/** Starts a PostgreSQL when the first test asks for one. */
const globalSetup = 'test/support/postgres-setup.ts'

export default defineConfig({
  test: {
    reporters: ['default', './test/support/closing-line.ts'],
    // Enough on a machine that is ten times slower than a quiet one.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 30_000 } },
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
          globalSetup,
        },
      },
      // With STOA_TEST_ENGINE=postgres the first project runs these, and all others, on PostgreSQL.
      ...(isOnServer
        ? []
        : [
            {
              extends: true as const,
              test: { name: 'postgres', include: onBothEngines, globalSetup, env: { STOA_TEST_ENGINE: 'postgres' } },
            },
          ]),
      {
        extends: true,
        // Builds the dashboard and unpacks Chromium, where a test that needs them runs.
        test: { name: 'browser', include: [inBrowser], globalSetup: ['test/support/browser-setup.ts', globalSetup] },
      },
    ],
  },
})
