/** Checks of the shape of the source: how long a function is, how many parameters it takes, who imports a name. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { parseAst } from 'rolldown/parseAst'
import { expect, test } from 'vitest'

const FUNCTION_LINES_MAX = 70
/** A factory holds the functions of the object that it returns. */
const FACTORY_LINES_MAX = 120
const PARAMETERS_MAX = 4

type Node = { type: string; start: number; end: number } & Record<string, unknown>
type Source = { path: string; text: string; program: Node }

const top = new URL('../', import.meta.url).pathname
const isSource = (path: string) => /\.tsx?$/.test(path) && !/\.(test|d)\.tsx?$/.test(path)
const sources = (folder: string): Source[] =>
  readdirSync(join(top, folder), { recursive: true, encoding: 'utf8' })
    .filter(isSource)
    .map((path) => {
      const text = readFileSync(join(top, folder, path), 'utf8')
      const program = parseAst(text, { lang: path.endsWith('x') ? 'tsx' : 'ts' }) as unknown as Node
      return { path: posix.join(folder, path), text, program }
    })
const product = sources('src')
/** Everything that is not a test and may import from `src/`. */
const others = ['dashboard', 'devnet', 'bench', 'docs'].flatMap(sources)

const isNode = (value: unknown): value is Node => typeof (value as Node | null)?.type === 'string'
const childrenOf = (node: Node) => Object.values(node).flat().filter(isNode)

/** Visits a node and all nodes in it, each with its parent. */
function* walk(node: Node, parent?: Node): Generator<{ node: Node; parent: Node | undefined }> {
  yield { node, parent }
  for (const child of childrenOf(node)) yield* walk(child, node)
}

function* functions() {
  for (const { path, text, program } of product) {
    for (const { node, parent } of walk(program)) {
      if (!/^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(node.type)) continue
      const named = (node.id ?? parent?.key ?? parent?.id) as { name?: string } | null | undefined
      const lines = text.slice(node.start, node.end).split('\n').length
      yield { at: `${path} ${named?.name ?? '(anonymous)'}`, node, lines }
    }
  }
}

/** True if a function returns an object of functions or a function. */
function isFactory({ body }: Node): boolean {
  const built = (value: unknown) =>
    isNode(value) && /^(ObjectExpression|ArrowFunctionExpression|FunctionExpression)$/.test(value.type)
  if (!isNode(body) || body.type !== 'BlockStatement') return built(body)
  return childrenOf(body).some((statement) => statement.type === 'ReturnStatement' && built(statement.argument))
}

test('a function fits a screen', () => {
  const long = [...functions()].filter(
    ({ node, lines }) => lines > (isFactory(node) ? FACTORY_LINES_MAX : FUNCTION_LINES_MAX),
  )
  expect(long.map(({ at, lines }) => `${at}: ${lines} lines`)).toEqual([])
})

test('a function takes at most four parameters by position', () => {
  const wide = [...functions()].filter(({ node }) => (node.params as Node[]).length > PARAMETERS_MAX)
  expect(wide.map(({ at }) => at)).toEqual([])
})

/** The file and name of each name that a file imports or exports again, `*` for all names of a file. */
function importedBy({ path, program }: Source): string[] {
  const target = (from: Node) => posix.join(posix.dirname(path), String(from.value))
  return [...walk(program)].flatMap(({ node }) => {
    const from = node.source
    if (!isNode(from) || from.type !== 'Literal' || !String(from.value).startsWith('.')) return []
    const names = (node.specifiers as Node[] | undefined)?.map((specifier) => {
      const name = (specifier.type === 'ExportSpecifier' ? specifier.local : specifier.imported) as Node | undefined
      return String(name?.name ?? name?.value ?? '*')
    })
    return (names ?? ['*']).map((name) => `${target(from)} ${name}`)
  })
}

const EXPORTED_FOR_TEST = '@internal Exported for its test'

/** The names that a file declares and exports, if their docstrings are meant. */
function exportedBy({ path, text, program }: Source, isMeant: (docstring: string) => boolean): string[] {
  return (program.body as Node[]).flatMap((statement) => {
    if (statement.type !== 'ExportNamedDeclaration' || isNode(statement.source)) return []
    const docstring = /\/\*\*(?:(?!\*\/)[\s\S])*\*\/\s*$/.exec(text.slice(0, statement.start))?.[0] ?? ''
    if (!isMeant(docstring)) return []
    const declared = statement.declaration as Node | null
    const declarations = (declared?.declarations as Node[] | undefined) ?? (declared === null ? [] : [declared])
    const specified = (statement.specifiers as Node[]).map(({ exported }) => exported as Node)
    const names = [...declarations.map(({ id }) => id as Node), ...specified].filter((id) => id?.name !== undefined)
    return names.map(({ name }) => `${path} ${name}`)
  })
}

test('an exported name has an importer outside tests, or says @internal', () => {
  const imported = new Set([...product, ...others].flatMap(importedBy))
  const isEntry = (path: string) => path === 'src/index.ts' || path === 'src/main.ts'
  const unused = product
    .filter(({ path }) => !isEntry(path) && !imported.has(`${path} *`))
    .flatMap((source) => exportedBy(source, (docstring) => !docstring.includes('@internal')))
    .filter((name) => !imported.has(name))
  expect(unused).toEqual([])
})

test('a name that says that it is exported for its test has no importer in another file', () => {
  const imported = new Set(product.flatMap(importedBy))
  const internal = product.flatMap((source) => exportedBy(source, (docstring) => docstring.includes(EXPORTED_FOR_TEST)))
  expect(internal).not.toEqual([])
  expect(internal.filter((name) => imported.has(name))).toEqual([])
})

test('there are no import circles, imports of running code included', () => {
  const graph = new Map(
    product.map((source) => [source.path, new Set(importedBy(source).map((name) => name.split(' ')[0]!))]),
  )
  const done = new Set<string>()
  const visit = (path: string, trail: readonly string[]): void => {
    if (trail.includes(path)) throw new Error([...trail.slice(trail.indexOf(path)), path].join(' → '))
    if (done.has(path)) return
    for (const target of graph.get(path) ?? []) visit(target, [...trail, path])
    done.add(path)
  }
  for (const path of graph.keys()) visit(path, [])
})

test('two files of a folder do not declare types of the same name', () => {
  const declared = new Map<string, string[]>()
  for (const { path, program } of product) {
    const folder = path.split('/')[1]!
    for (const statement of program.body as Node[]) {
      const declaration = isNode(statement.declaration) ? statement.declaration : statement
      if (!/^(TSTypeAliasDeclaration|TSInterfaceDeclaration|ClassDeclaration)$/.test(declaration.type)) continue
      const key = `${folder} ${(declaration.id as { name?: string } | null)?.name}`
      declared.set(key, [...(declared.get(key) ?? []), path])
    }
  }
  expect([...declared].filter(([, paths]) => paths.length > 1)).toEqual([])
})
