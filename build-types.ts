/**
 * Writes dist/types/index.d.ts: the types of the public API in one file. Types that the API does not reach are left
 * out. Only zod's types stay outside, so zod is the one package of `dependencies`.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import { dts } from 'rolldown-plugin-dts'

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))
// The directory lies beside node_modules. Elsewhere the types of packages are not found.
const declarations = mkdtempSync(at('dist/declarations-'))
try {
  execFileSync(
    process.execPath,
    [at('node_modules/typescript/bin/tsc'), '-p', at('tsconfig.build.json'), '--outDir', declarations],
    {
      stdio: 'inherit',
    },
  )
  const bundle = await rolldown({
    input: { index: `${declarations}/index.d.ts` },
    platform: 'node',
    external: /^(?:node:|zod(?:\/|$))/,
    // The declarations exist already, so the plugin needs no compiler.
    plugins: [dts({ dtsInput: true, generator: 'oxc' })],
    // Types of CommonJS packages cannot be bundled. The public API reaches none: the test of the package compiles against it.
    onLog: (level, log, next) => (log.plugin === 'rolldown-plugin-dts:fake-js' ? undefined : next(level, log)),
  })
  await bundle.write({ dir: at('dist/types'), cleanDir: true, format: 'esm' })
  await bundle.close()
} finally {
  rmSync(declarations, { recursive: true, force: true })
}
