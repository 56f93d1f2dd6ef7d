import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
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
  mkdirSync(at('../../dist'), { recursive: true })
  const dir = mkdtempSync(at('../../dist/test-'))
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
