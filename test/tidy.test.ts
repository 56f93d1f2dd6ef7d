/** Checks of the source itself: what may import what, what may touch the outside, how long a file may be. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { expect, test } from 'vitest'

/** Imports point from a later line to an earlier one, never sideways between folders, never back. */
const tiers = [
  ['lib', 'schema'],
  ['config'],
  ['store', 'chain', 'p2p'],
  ['payments', 'agents'],
  ['protocols'],
  ['listings', 'workers'],
  ['search', 'sources'],
  ['ledger'],
  ['selling', 'trust'],
  ['buying'],
  ['tools', 'webhooks'],
  ['http', 'a2a', 'mcp', 'openai'],
  ['node'],
  ['tui'],
  ['cli'],
  ['main.ts', 'index.ts'],
]
const FILE_LINES_MAX = 300

/** Where a package from outside may be used. One that is not named here may be used by nobody. */
const homes: Record<string, readonly string[]> = {
  libp2p: ['p2p'],
  '@libp2p': ['p2p', 'protocols', 'listings', 'workers', 'buying'],
  '@chainsafe': ['p2p'],
  '@multiformats': ['p2p'],
  multiformats: ['p2p', 'agents'],
  uint8arraylist: ['p2p', 'protocols'],
  'datastore-core': ['store', 'p2p'],
  'interface-datastore': ['store', 'p2p'],
  pg: ['store'],
  viem: ['payments', 'chain'],
  undici: ['lib', 'payments'],
  '@noble': ['payments', 'chain'],
  secp256k1: ['payments'],
  fastify: ['http'],
  '@a2a-js': ['a2a', 'agents'],
  express: ['a2a'],
  '@modelcontextprotocol': ['mcp', 'agents'],
  ajv: ['agents'],
  ai: ['agents'],
  '@ai-sdk': ['agents'],
  stopword: ['agents'],
  yaml: ['config'],
  commander: ['cli'],
  pino: ['cli'],
  '@clack': ['cli'],
  ink: ['tui'],
  react: ['tui'],
  'prom-client': ['http'],
  zod: [
    'lib',
    'schema',
    'config',
    'store',
    'chain',
    'p2p',
    'payments',
    'agents',
    'protocols',
    'listings',
    'workers',
    'search',
    'sources',
    'selling',
    'tools',
    'webhooks',
    'node',
    'http',
    'a2a',
    'mcp',
    'cli',
  ],
}
/** Of `@libp2p`, only these may leave p2p/: the types of streams. */
const streamTypes = /^@libp2p\/interface$/

const root = new URL('../src/', import.meta.url).pathname
const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts') && !/\.(test|d)\.ts$/.test(path))
  .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }))

const folder = (path: string) => path.split('/')[0]!
const tier = (path: string) => tiers.findIndex((names) => names.includes(folder(path)))
const uncommented = (text: string) => text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')
/** What a file names after `import` or `from`; imports that happen while it runs do not bind its shape. */
const specifiers = (text: string) =>
  [...text.matchAll(/^(?:import\b[^'"]*|export\b[^'"=(]*\bfrom\s*|\} from\s*)['"]([^'"]+)['"]/gm)].map(
    (match) => match[1]!,
  )
const everySpecifier = (text: string) => [
  ...specifiers(text),
  ...[...text.matchAll(/\b(?:import|require)\(\s*['"]([^'"]+)['"]/g)].map((match) => match[1]!),
]
const inside = (path: string, names: readonly string[]) =>
  names.filter((name) => name.startsWith('.')).map((name) => posix.join(posix.dirname(path), name))
const outside = (names: readonly string[]) => names.filter((name) => !name.startsWith('.') && !name.startsWith('node:'))
const offenders = (rule: RegExp, allowed: (path: string) => boolean) =>
  files.filter(({ path, text }) => rule.test(uncommented(text)) && !allowed(path)).map(({ path }) => path)

test('every folder has a tier', () => {
  expect(files.filter(({ path }) => tier(path) < 0).map(({ path }) => path)).toEqual([])
})

test('imports point downwards', () => {
  const wrong = files.flatMap(({ path, text }) =>
    inside(path, everySpecifier(text))
      .filter((target) => folder(target) !== folder(path) && tier(target) >= tier(path))
      .map((target) => `${path} → ${target}`),
  )
  expect(wrong).toEqual([])
})

test('every package has a home', () => {
  const nameOf = (specifier: string) => specifier.split('/')[0]!
  const wrong = files.flatMap(({ path, text }) =>
    outside(everySpecifier(text))
      .filter((name) => homes[nameOf(name)]?.includes(folder(path)) !== true)
      .map((name) => `${path} → ${name}`),
  )
  expect(wrong).toEqual([])
})

test('libp2p leaves p2p/ as stream types only', () => {
  const wrong = files.flatMap(({ path, text }) =>
    folder(path) === 'p2p'
      ? []
      : outside(specifiers(text)).filter((name) => name.startsWith('@libp2p/') && !streamTypes.test(name)),
  )
  expect(wrong).toEqual([])
})

test('schema loads in a browser: it imports zod and nothing else', () => {
  const wrong = files
    .filter(({ path }) => folder(path) === 'schema')
    .flatMap(({ path, text }) =>
      everySpecifier(text)
        .filter((name) => name !== 'zod' && folder(posix.join(posix.dirname(path), name)) !== 'schema')
        .map((name) => `${path} → ${name}`),
    )
  expect(wrong).toEqual([])
})

test('there are no import circles, types included', () => {
  const graph = new Map(files.map(({ path, text }) => [path, inside(path, specifiers(text))]))
  const done = new Set<string>()
  const visit = (path: string, trail: readonly string[]): void => {
    if (trail.includes(path)) throw new Error([...trail, path].join(' → '))
    if (done.has(path)) return
    for (const target of graph.get(path) ?? []) visit(target, [...trail, path])
    done.add(path)
  }
  for (const path of graph.keys()) visit(path, [])
})

test('the outside is touched only where it should be', () => {
  expect(offenders(/process\.env\b/, (path) => path === 'config/env.ts')).toEqual([])
  expect(offenders(/Date\.now\(|new Date\(\)/, (path) => path === 'lib/clock.ts')).toEqual([])
  expect(offenders(/Math\.random\(/, () => false)).toEqual([])
  const mayPrint = (path: string) => path === 'main.ts' || folder(path) === 'cli'
  expect(offenders(/\bconsole\.|process\.std(out|err)\b/, mayPrint)).toEqual([])
  expect(offenders(/process\.exit\(/, (path) => path === 'main.ts')).toEqual([])
})

test('style that a linter does not see', () => {
  expect(offenders(/^export default/m, () => false)).toEqual([])
  expect(offenders(/^export \* from/m, (path) => path === 'index.ts')).toEqual([])
  expect(offenders(/^\s*(?:export )?(?:const )?enum /m, () => false)).toEqual([])
  expect(
    files.filter(({ path }) => /(^|\/)index\.ts$/.test(path) && path !== 'index.ts').map(({ path }) => path),
  ).toEqual([])
  expect(files.filter(({ path }) => !/^[a-z0-9./-]+$/.test(path)).map(({ path }) => path)).toEqual([])
  expect(files.filter(({ text }) => text.split('\n').length > FILE_LINES_MAX).map(({ path }) => path)).toEqual([])
  expect(
    files
      .find(({ path }) => path === 'main.ts')!
      .text.trimEnd()
      .split('\n').length,
  ).toBeLessThanOrEqual(40)
})

const dashboardRoot = new URL('../dashboard/src/', import.meta.url).pathname
const dashboard = readdirSync(dashboardRoot, { recursive: true, encoding: 'utf8' })
  .filter((path) => /\.tsx?$/.test(path))
  .map((path) => ({ path, text: readFileSync(join(dashboardRoot, path), 'utf8') }))

test('the dashboard takes the types of the wire contract, a few small libraries, and nothing else', () => {
  const libraries = ['react', 'react-dom/client', 'uplot', 'uplot/dist/uPlot.min.css', 'qrcode-generator']
  const typesOf = /^import type [^'"]*['"](?:zod|(?:\.\.\/)+src\/(?:schema\/[a-z0-9-]+|http\/client)\.ts)['"]$/gm
  const wrong = dashboard
    .filter(({ path }) => !path.endsWith('.test.ts'))
    .flatMap(({ path, text }) =>
      everySpecifier(text.replace(typesOf, ''))
        .filter((name) => !libraries.includes(name) && !posix.join('src', posix.dirname(path), name).startsWith('src/'))
        .map((name) => `${path} → ${name}`),
    )
  expect(wrong).toEqual([])
})

test('T10 the dashboard shows text as text', () => {
  const unsafe = /dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(/
  expect(dashboard.filter(({ text }) => unsafe.test(text)).map(({ path }) => path)).toEqual([])
  expect(dashboard.filter(({ text }) => text.split('\n').length > FILE_LINES_MAX).map(({ path }) => path)).toEqual([])
})
