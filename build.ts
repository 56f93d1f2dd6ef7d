/**
 * Bundles the node into dist/node: our code and every package it uses, in minified chunks for the oldest Node.js that
 * package.json names. A start reads a few files. An installed node needs no packages except the native ones in
 * `optionalDependencies`. Parts that few nodes need (language models, the terminal interface, MCP, A2A) are chunks that
 * load on first use.
 *
 * All files lie in one folder, as deep as those of src/. So code finds a file beside itself in a checkout and in the
 * package alike.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { fileURLToPath } from 'node:url'
import { type Plugin, rolldown } from 'rolldown'
import { nameOf, ownRequire, packageJson, stays, workers as threads } from './build-parts.ts'

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const { engines, dependencies, devDependencies, optionalDependencies } = packageJson

const declared = { ...dependencies, ...devDependencies, ...optionalDependencies }

/** A package that only another package brings along may be gone with the other's next version. */
const onlyDeclared: Plugin = {
  name: 'only-declared',
  resolveId(id, importer) {
    if (importer === undefined || !importer.startsWith(at('src/')) || /^[./]/.test(id) || isBuiltin(id)) return
    if (!(nameOf(id) in declared)) throw new Error(`${importer} imports ${id}, which package.json does not name`)
  },
}

const input = {
  main: at('src/main.ts'),
  index: at('src/index.ts'),
  ...threads,
}
/** Each set holds modules and all their static imports: what must load before the first of them runs. */
const closures = {
  workers: new Set<string>(),
  program: new Set<string>(),
  commands: new Set<string>(),
  node: new Set<string>(),
}
const roots: Record<keyof typeof closures, string[]> = {
  workers: Object.values(threads),
  program: ['program', 'io', 'parts', 'redactor'].map((name) => at(`src/cli/${name}.ts`)),
  commands: [at('src/cli/commands.ts')],
  // With the parts that every start loads by import(). QUIC stays apart: its module throws where its native code is not
  // installed, and a node then works over TCP.
  node: [
    ...['cli/commands/start', 'node/create-node', 'chain/chain', 'http/server/app'].map((name) => at(`src/${name}.ts`)),
    at('node_modules/@libp2p/mdns/dist/src/index.js'),
  ],
}
const findClosures: Plugin = {
  name: 'find-closures',
  buildEnd() {
    for (const [name, found] of Object.entries(closures) as [keyof typeof closures, Set<string>][]) {
      const open = [...roots[name]]
      for (let id = open.pop(); id !== undefined; id = open.pop()) {
        const module = this.getModuleInfo(id)
        if (module === null || found.has(id)) continue
        found.add(id)
        open.push(...module.importedIds)
      }
    }
  },
}
const { workers, program, commands, node } = closures
/**
 * A file costs a start 1 to 2 ms, whatever its size. So the modules of a start lie in three files instead of 90. The
 * other commands load two of them. Modules of the worker threads stay apart, so that a thread loads no node.
 */
const codeSplitting = {
  includeDependenciesRecursively: false,
  groups: [
    { name: 'program', test: (id: string) => program.has(id) && !workers.has(id) },
    { name: 'commands', test: (id: string) => commands.has(id) && node.has(id) && !workers.has(id) },
    { name: 'node', test: (id: string) => node.has(id) && !workers.has(id) },
  ],
}

const bundle = await rolldown({
  input,
  platform: 'node',
  external: stays,
  // Groups of modules need it.
  preserveEntrySignatures: 'allow-extension',
  plugins: [onlyDeclared, ownRequire, findClosures],
  transform: { target: engines.node.replace('>=', 'node') },
  onLog(level, log, next) {
    // An import that is neither bundled nor installed would fail on the user's machine.
    if (log.code === 'UNRESOLVED_IMPORT') throw new Error(log.message)
    next(level, log)
  },
})
const { output } = await bundle.write({
  dir: at('dist/node'),
  cleanDir: true,
  format: 'esm',
  // Lines stay short: Node.js prints the line of an error that nobody catches.
  minify: { compress: true, mangle: true, codegen: false },
  chunkFileNames: '[name]-[hash].js',
  codeSplitting,
})
await bundle.close()
writeFileSync(
  at('dist/node/LICENSES.txt'),
  licensesOf(output.flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []))),
)

/** The license texts of all packages whose code is in the bundle. Their licenses ask for it. */
function licensesOf(moduleIds: readonly string[]): string {
  const folders = new Set(moduleIds.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? []))
  const notices = [...folders].sort().map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8')) as Record<
      string,
      string
    >
    const file = readdirSync(folder).find((entry) => /^(licen[cs]e|copying)/i.test(entry))
    const text = file === undefined ? `License: ${license}` : readFileSync(`${folder}/${file}`, 'utf8').trim()
    return `${name} ${version}\n\n${text}\n`
  })
  return `This folder holds code of these packages.\n\n${[...new Set(notices)].join('\n---\n\n')}`
}
