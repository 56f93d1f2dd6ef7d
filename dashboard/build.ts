/**
 * Builds the dashboard into dist/dashboard. `--clean` first removes everything that an earlier build left in dist/.
 * `--if-older` builds only if the dashboard is missing or older than its source: a node of a checkout asks for this.
 *
 * The finished folder replaces the old folder in one step. A node that runs during the build never finds half a
 * dashboard.
 */
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const dist = at('../dist')
const TRIES_MAX = 5

export async function buildDashboard(): Promise<void> {
  // The page may be new enough already. Then the build tools need not load.
  const { build } = await import('vite')
  const fresh = join(dist, `.dashboard-${process.pid}`)
  const { NODE_ENV: environment } = process.env
  // The build overrides the caller's value, for example a test's. Any other value brings React's development build,
  // which is half as large again.
  process.env.NODE_ENV = 'production'
  try {
    await build({
      configFile: at('./vite.config.ts'),
      logLevel: 'warn',
      build: { outDir: fresh, emptyOutDir: true },
    })
    putInPlace(fresh)
  } finally {
    rmSync(fresh, { recursive: true, force: true })
    if (environment === undefined) delete process.env.NODE_ENV
    else process.env.NODE_ENV = environment
  }
}

/** Puts the finished build in place. With two concurrent builds, the last one stays. */
function putInPlace(fresh: string): void {
  const place = join(dist, 'dashboard')
  const old = `${fresh}-old`
  for (let tries = 1; ; tries++) {
    try {
      if (existsSync(place)) renameSync(place, old)
      renameSync(fresh, place)
      return
    } catch (error) {
      if (tries === TRIES_MAX) throw error
    } finally {
      rmSync(old, { recursive: true, force: true })
    }
  }
}

function clean(): void {
  mkdirSync(dist, { recursive: true })
  for (const name of readdirSync(dist)) {
    if (name !== 'dashboard') rmSync(join(dist, name), { recursive: true, force: true })
  }
}

/** True if the dashboard is missing or older than a file that it is made of. A removed file changes its folder. */
function isOlder(): boolean {
  const builtMs = statSync(join(dist, 'dashboard/index.html'), { throwIfNoEntry: false })?.mtimeMs ?? 0
  const names = ['.', '../package.json', ...readdirSync(at('.'), { recursive: true, encoding: 'utf8' })]
  return names.some((name) => statSync(join(at('.'), name)).mtimeMs > builtMs)
}

if (import.meta.main && !(process.argv.includes('--if-older') && !isOlder())) {
  if (process.argv.includes('--clean')) clean()
  await buildDashboard()
}
