import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'

const inBrowser = 'test/browser/**/*.test.ts'
const parts = ['src/**/*.test.ts', 'dashboard/**/*.test.ts', 'devnet/**/*.test.ts', 'test/ledger/**/*.test.ts']
/** Attacks that compare how quick a node is, or how much memory it has, with what it was. */
const timed = globSync('test/attacks/**/*.test.ts', { cwd: import.meta.dirname }).filter((path) =>
  /honest-calls|honestP99|shortest|VmRSS/.test(readFileSync(join(import.meta.dirname, path), 'utf8')),
)
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
/** Each makes what it is for when the first test asks for it. */
const globalSetup = ['test/support/postgres-setup.ts', 'test/support/bundle-setup.ts']

export default defineConfig({
  test: {
    reporters: ['default', './test/support/closing-line.ts'],
    // Enough on a machine that is ten times slower than a quiet one.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 30_000 } },
    // Test files at once.
    maxWorkers: 2,
    // A second try, where one of 5,000 tests that waited too long would refuse a day of work. It is told at the end.
    retry: Number(process.env.STOA_TEST_RETRIES ?? 0),
    projects: [
      // These start no whole node, so none is left running in a process that many of them share. With modules loaded once they
      // take half of the time.
      { extends: true, test: { name: 'parts', include: parts, globalSetup, isolate: false } },
      {
        extends: true,
        test: {
          name: 'node',
          include: ['test/**/*.test.ts'],
          exclude: [...configDefaults.exclude, ...parts, inBrowser, ...timed],
          globalSetup,
        },
      },
      // One file at a time, when all others have ended.
      {
        extends: true,
        test: { name: 'timed', include: timed, globalSetup, maxWorkers: 1, sequence: { groupOrder: 1 } },
      },
      // With STOA_TEST_ENGINE=postgres the projects above run these, and all others, on PostgreSQL.
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
        test: { name: 'browser', include: [inBrowser], globalSetup: ['test/support/browser-setup.ts', ...globalSetup] },
      },
    ],
  },
})
