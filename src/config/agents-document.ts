/* The text of agents.yaml, with its comments. agents-yaml.ts is the entrance. */

import { isDeepStrictEqual } from 'node:util'
import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type ParsedNode,
  parseDocument,
  visit,
  YAMLMap,
  YAMLSeq,
} from 'yaml'
import type { AgentDefinition } from '../schema/agent.ts'
import { entryOf, isUnset, readEntry, scalarText } from './agents-fields.ts'
import { ConfigError, quote } from './config-error.ts'

const AGENTS_MAX = 1000
/** Problems reported at once. Nobody reads more. */
const PROBLEMS_MAX = 20

/** The text of an `agents.yaml` and its contents. Changes keep comments, order and the spelling of untouched values. */
export interface AgentsDocument {
  readonly agents: AgentDefinition[]
  /** False: the text has no `agents:` with a list, not even an empty one. */
  readonly hasList: boolean
  /** The line in which an agent of the parsed text begins, from 1. */
  lineOf(name: string): number | undefined
  put(definition: AgentDefinition): void
  remove(name: string): boolean
  text(): string
}

/**
 * Parses the text of an `agents.yaml`.
 *
 * @param path named in errors.
 * @throws ConfigError with a line for each problem: file, line, agent, key, the given value and what is expected
 */
export function parseAgentsDocument(text: string, path: string): AgentsDocument {
  const lines = new LineCounter()
  const lineOf = (offset: number | undefined) => lines.linePos(offset ?? 0).line
  // Duplicate keys are checked elsewhere: the parser's own check takes seconds on a long file.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: false })
  const problems: string[] = []
  const report = (offset: number | undefined, message: string) => {
    if (problems.length < PROBLEMS_MAX) problems.push(`${path}:${lineOf(offset)}: ${message}`)
  }
  checkSyntax(document, report)
  const list = problems.length > 0 ? undefined : findList(document.contents, report)
  const agents: AgentDefinition[] = []
  const names = new Map<string, number>()
  for (const [i, node] of (list?.items ?? []).entries()) {
    const offset = node?.range[0]
    const agent = readEntry(node, (at, message) => report(at ?? offset, `agents[${i}]: ${message}`))
    if (agent === undefined) continue
    const same = names.get(sameName(agent.name))
    if (same !== undefined)
      report(
        offset,
        `agents[${i}]: the name ${quote(agent.name)} is already used in line ${same}: give each agent its own name`,
      )
    names.set(sameName(agent.name), lineOf(offset))
    agents.push(agent)
  }
  if (problems.length > 0) throw new ConfigError(problems)
  return editor(document, { list, agents, names }, { path, indentSeq: isIndented(list, lines) })
}

function editor(
  document: Document,
  parsed: { list: YAMLSeq | undefined; agents: AgentDefinition[]; names: ReadonlyMap<string, number> },
  { path, indentSeq }: { path: string; indentSeq: boolean },
): AgentsDocument {
  const { agents } = parsed
  let { list } = parsed
  const indexOf = (name: string) => agents.findIndex((agent) => sameName(agent.name) === sameName(name))
  return {
    agents,
    hasList: list !== undefined,
    lineOf: (name) => parsed.names.get(sameName(name)),
    put(definition) {
      list ??= addList(document)
      const index = indexOf(definition.name)
      const node = list.items[index]
      if (isMap(node)) {
        update(document, node, agents[index]!, definition)
        agents[index] = definition
      } else {
        if (agents.length >= AGENTS_MAX)
          throw new ConfigError(
            `${path}: the file already has ${AGENTS_MAX} agents, which is the maximum: remove one first`,
          )
        if (list.items.length === 0) openUp(list)
        list.add(createNode(document, entryOf(definition)))
        agents.push(definition)
      }
    },
    remove(name) {
      const index = indexOf(name)
      if (index === -1 || list === undefined) return false
      list.items.splice(index, 1)
      agents.splice(index, 1)
      if (agents.length === 0) list.flow = true
      return true
    },
    text() {
      const text = document.toString({ lineWidth: 0, indentSeq })
      const written = parseAgentsDocument(text, path).agents
      if (!isDeepStrictEqual(written, agents)) throw new Error('the rewritten file would have a different meaning')
      return text
    },
  }
}

function checkSyntax(document: Document.Parsed, report: (offset: number | undefined, message: string) => void): void {
  for (const { pos, message } of [...document.errors, ...document.warnings].slice(0, PROBLEMS_MAX)) {
    const isDeep = /call stack/i.test(message)
    report(pos[0], isDeep ? 'the YAML is nested too deeply' : `not valid YAML: ${message}`)
    if (isDeep) return
  }
  if (document.errors.length > 0) return
  visit(document, {
    Node(_, node) {
      // A few lines of aliases to aliases can expand to gigabytes, and a list of agents needs no aliases.
      if (!isAlias(node)) return undefined
      report(node.range?.[0], 'aliases (*name) are not supported: write the value instead')
      return visit.BREAK
    },
  })
}

function findList(root: ParsedNode | null, report: (offset: number | undefined, message: string) => void) {
  if (isUnset(root)) return undefined
  if (!isMap(root)) {
    report(root?.range[0], 'expected "agents:" with a list of agents under it')
    return undefined
  }
  let list: YAMLSeq<ParsedNode | null> | undefined
  let isGiven = false
  for (const { key, value } of root.items) {
    const name = isScalar(key) ? scalarText(key) : ''
    if (name !== 'agents') report(key.range?.[0], `${quote(name)} is not known: expected only "agents:"`)
    else if (isGiven) report(key.range?.[0], 'agents is given twice')
    else if (isSeq(value)) list = value as YAMLSeq<ParsedNode | null>
    else if (!isUnset(value)) report(value?.range[0], 'agents: expected a list: "- name: …"')
    isGiven ||= name === 'agents'
  }
  if (list !== undefined && list.items.length > AGENTS_MAX) {
    report(list.range?.[0], `agents: the list has ${list.items.length} agents: expected at most ${AGENTS_MAX}`)
    return undefined
  }
  return list
}

/** Adds an empty list if the file has none, and keeps the comments at its place. */
function addList(document: Document): YAMLSeq {
  const list = new YAMLSeq(document.schema)
  if (!isMap(document.contents)) document.contents = new YAMLMap(document.schema)
  replaceValue(document.contents as YAMLMap, 'agents', list)
  return list
}

/** Turns `agents: [] # why` into a block list with the comment above it. */
function openUp(list: YAMLSeq): void {
  list.flow = false
  if (!list.comment) return
  list.commentBefore = [list.commentBefore, list.comment].filter(Boolean).join('\n')
  list.comment = null
}

/** Changes only new values: an unchanged `price: 0.10` stays `0.10`. */
function update(document: Document, map: YAMLMap, from: AgentDefinition, to: AgentDefinition): void {
  const [before, after] = [entryOf(from), entryOf(to)]
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)]) as Set<keyof AgentDefinition>) {
    if (isDeepStrictEqual(before[name], after[name])) continue
    if (after[name] === undefined) map.delete(name)
    else replaceValue(map, name, createNode(document, after[name]))
  }
}

function replaceValue(map: YAMLMap, key: string, value: Node): void {
  const old = map.get(key, true)
  if (isNode(old)) {
    for (const part of ['commentBefore', 'comment', 'spaceBefore'] as const) {
      if (old[part] !== undefined) Object.assign(value, { [part]: old[part] })
    }
  }
  map.set(key, value)
}

/** Lists of words stay on one line. */
function createNode(document: Document, value: unknown): Node {
  const node = document.createNode(value)
  visit(node, {
    Seq(_, list) {
      list.flow = true
    },
  })
  return node
}

/** Two Unicode spellings of a name are the same agent, as in its id (D5). */
function sameName(name: string): string {
  return name.normalize('NFC')
}

function isIndented(list: YAMLSeq | undefined, lines: LineCounter): boolean {
  return list?.range == null || list.flow === true || lines.linePos(list.range[0]).col > 1
}
