import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import type { TestProject } from 'vitest/node'
import { ownRequire, stays, workers } from '../../build-parts.ts'
import { offerOnce } from './made-once.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** A Unix socket: whoever connects is told where the bundle of `faulty-node.ts` is. */
    bundle: string
  }
}

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))

/**
 * Bundles the node with its fault points for all tests of a run, when the first test asks for it. A node of the source
 * is 1,500 files, and a start of it takes four times as long.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { path, end } = await offerOnce(bundle)
  project.provide('bundle', path)
  return end
}

async function bundle() {
  // As deep as the files of src/, like the bundle of the package. Other runs may use the same checkout.
  const dist = at('../../dist/')
  mkdirSync(dist, { recursive: true })
  removeLeftOver(dist)
  const dir = mkdtempSync(`${dist}test-${process.pid}-`)
  const undo = () => rmSync(dir, { recursive: true, force: true })
  try {
    const bundled = await rolldown({
      input: { 'faulty-node': at('./faulty-node.ts'), ...workers },
      platform: 'node',
      external: stays,
      plugins: [ownRequire],
    })
    await bundled.write({ dir, format: 'esm' })
    await bundled.close()
    return { told: join(dir, 'faulty-node.js'), undo }
  } catch (error) {
    undo()
    throw error
  }
}

/** Removes the bundles of runs that were killed. */
function removeLeftOver(dist: string): void {
  for (const name of readdirSync(dist)) {
    const pid = Number(/^test-(\d+)-/.exec(name)?.[1] ?? process.pid)
    if (!isAlive(pid)) rmSync(join(dist, name), { recursive: true, force: true })
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}
