/**
 * Builds the dashboard into dist/dashboard. `--clean` first removes all else that an earlier build left in dist/.
 *
 * The finished folder takes the place of the old one in one step: a node that runs beside it never finds half of one.
 */
import { mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'

const dist = fileURLToPath(new URL('../dist', import.meta.url))

export async function buildDashboard(): Promise<void> {
  const fresh = join(dist, `.dashboard-${process.pid}`)
  const old = `${fresh}-old`
  const place = join(dist, 'dashboard')
  try {
    await build({
      configFile: fileURLToPath(new URL('./vite.config.ts', import.meta.url)),
      logLevel: 'warn',
      build: { outDir: fresh, emptyOutDir: true },
    })
    try {
      renameSync(place, old)
    } catch {
      // There was none.
    }
    renameSync(fresh, place)
  } finally {
    for (const left of [fresh, old]) rmSync(left, { recursive: true, force: true })
  }
}

function clean(): void {
  mkdirSync(dist, { recursive: true })
  for (const name of readdirSync(dist)) {
    if (name !== 'dashboard') rmSync(join(dist, name), { recursive: true, force: true })
  }
}

if (import.meta.main) {
  if (process.argv.includes('--clean')) clean()
  await buildDashboard()
}
