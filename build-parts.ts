/** What every bundle of the node needs: the package, and the tests that run the node in processes of its own. */
import { readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { Plugin } from 'rolldown'

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))
type Packages = Record<string, string>
export const packageJson = JSON.parse(readFileSync(at('package.json'), 'utf8')) as {
  engines: { node: string }
  dependencies: Packages
  devDependencies: Packages
  optionalDependencies: Packages
}

/** Ink loads its developer tools when `DEV` is set. The package is not installed in that case either. */
const absent = ['react-devtools-core']
/** The package that an import names. */
export const nameOf = (id: string) => /^(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? id
/** Whether an import is not bundled: packages with native code, and what Node.js brings. */
export const stays = (id: string) =>
  isBuiltin(id) || absent.includes(id) || nameOf(id) in packageJson.optionalDependencies

/** The files that threads run. The node finds them beside itself. */
export const workers = {
  'builtin-worker': at('src/agents/builtin/builtin-worker.ts'),
  'signature-worker': at('src/p2p/signature-worker.ts'),
}

/** Our `createRequire` delays loading a package without a promise. The bundler's own `require` does so in a bundle. */
export const ownRequire: Plugin = {
  name: 'own-require',
  transform: {
    filter: { id: /\/src\/.*\.ts$/ },
    handler: (code) => code.replace('const require = createRequire(import.meta.url)', ''),
  },
}
