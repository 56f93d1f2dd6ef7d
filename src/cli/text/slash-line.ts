import type { Command, Option } from '../command.ts'
import { type Place, valuesOf } from '../completion.ts'

/** A line of the text interface: a command line, or an action of the interface itself. */
type SlashLine =
  | { kind: 'run'; argv: string[] }
  | { kind: 'help' }
  | { kind: 'clear' }
  | { kind: 'leave' }
  | { kind: 'mistake'; text: string }

/** Options that are not offered: they start a node or read standard input, and a node already runs. */
const notOffered = [
  '-',
  '--help',
  '--data-dir',
  '--port',
  '--bootstrap',
  '--no-mdns',
  '--network',
  '--rpc-url',
  '--log-level',
]
/** Commands that need the terminal or a node for themselves. */
export const notHere: readonly string[] = ['init', 'sell', 'start', 'mcp', 'completion', 'tui']
const ownWords = ['help', 'clear', 'exit'] as const
const verdicts = ['approve', 'deny'] as const

/**
 * Parses a line such as `/agent execute <id> what it is to do` into the words of a command line.
 *
 * A group alone lists (`/order`), and with an id shows (`/order <id>`). Words outside options are the query, the
 * agent's id and the task. Only text with several spaces in a row needs quotes.
 */
export function readSlashLine(line: string, table: readonly Command[]): SlashLine {
  const words = splitWords(line.trim().replace(/^\//, ''))
  if (words === undefined) return { kind: 'mistake', text: 'a quote is not closed: add the missing quote' }
  const [first = ''] = words
  if (first === 'exit' || first === 'quit') return { kind: 'leave' }
  if (first === 'clear') return { kind: 'clear' }
  if (first === '' || (first === 'help' && words.length === 1)) return { kind: 'help' }
  if (first === 'help') return { kind: 'run', argv: [...words.slice(1), '--help'] }
  if (notHere.includes(first)) {
    return { kind: 'mistake', text: `stoa ${first} works only in a shell: leave with /exit, or open another terminal` }
  }
  const verdict = verdictOf(words, table)
  if (verdict !== undefined) return { kind: 'run', argv: verdict }
  const row = rowOf(words, table)
  if (row === undefined) return { kind: 'run', argv: short(words, table) ?? words }
  return { kind: 'run', argv: gathered(row, words.slice(row.name.split(' ').length)) }
}

/** Ids to complete: those that were shown, latest first, and those of pending approvals. */
type KnownIds = { shown: readonly string[]; waiting: readonly string[] }

/** Completions for the end of the text, and where they begin. */
export function completeSlashLine(
  text: string,
  places: readonly Place[],
  ids: KnownIds,
): { from: number; candidates: string[] } {
  const last = /\S*$/.exec(text)![0]
  const from = text.length - last.length
  const earlier = text.slice(0, from).trim().replace(/^\//, '').split(/\s+/).filter(Boolean)
  const start = earlier.length === 0 ? '/' : ''
  const offered = earlier.length === 0 ? firstWords(places) : nextWords(earlier, last, places, ids)
  const wanted = last.replace(/^\//, '')
  return { from, candidates: offered.filter((word) => word.startsWith(wanted)).map((word) => start + word) }
}

function firstWords(places: readonly Place[]): string[] {
  const words = places.find(({ path }) => path.length === 0)?.words.map(({ word }) => word) ?? []
  const shorter = words.includes('approvals') ? verdicts : []
  return [...words.filter((word) => !notHere.includes(word)), ...ownWords, ...shorter].sort()
}

function nextWords(earlier: readonly string[], last: string, places: readonly Place[], ids: KnownIds): string[] {
  const [first = ''] = earlier
  const isVerdict = (verdicts as readonly string[]).includes(first)
  const path = first === 'help' ? earlier.slice(1) : isVerdict ? ['approvals', ...earlier] : earlier
  const placeOf = (words: readonly string[]) => places.find((place) => place.path.join(' ') === words.join(' '))
  let depth = path.length
  while (depth > 0 && placeOf(path.slice(0, depth)) === undefined) depth--
  const place = placeOf(path.slice(0, depth))
  if (place === undefined || depth === 0) return earlier[0] === 'help' ? firstWords(places) : []
  const before = place.options.find(({ flags }) => flags.match(/--[a-z0-9-]+/)?.[0] === earlier.at(-1))
  if (before !== undefined) {
    const values = valuesOf(before)
    if (typeof values !== 'string') return [...values]
    if (values === 'any' && before.flags.startsWith('--agent-id')) return ids.shown.filter(isAgentId)
    if (values !== 'none') return []
  }
  const words = path.length === depth ? place.words.map(({ word }) => word) : []
  const known = path.length === depth ? idsFor(place, ids) : []
  const offered = [...words, ...known].filter((word) => !notOffered.includes(word))
  // Offer options only after a dash, if other completions exist.
  if (offered.length > 0 && !last.startsWith('-')) return offered
  return longFlags(place).filter((word) => !notOffered.includes(word))
}

function longFlags({ options }: Place): string[] {
  return options.flatMap(({ flags }) => flags.match(/--[a-z0-9-]+/)?.[0] ?? [])
}

const isAgentId = (id: string) => !id.includes('-')

/** Ids that may follow here as an argument. Agents have base32 ids; orders and workflows have UUIDs. */
function idsFor({ path }: Place, { shown, waiting }: KnownIds): readonly string[] {
  const words = path.join(' ')
  if (/^approvals (approve|deny)$/.test(words)) return waiting
  if (/^(agent (execute|update|pause|resume|remove|test)|session( list| show)?)$/.test(words))
    return shown.filter(isAgentId)
  return /^(order|workflow)( show| cancel| execute)?$/.test(words) ? shown.filter((id) => !isAgentId(id)) : []
}

/** The command that the words begin with. The longest name wins. */
function rowOf(words: readonly string[], table: readonly Command[]): Command | undefined {
  const names = (depth: number) => words.slice(0, depth).join(' ')
  for (let depth = Math.min(3, words.length); depth > 0; depth--) {
    const row = table.find(({ name }) => name === names(depth))
    if (row !== undefined) return row
  }
  return undefined
}

/** `/approve` lists pending approvals. `/approve <id>` and `/deny <id>` decide. */
function verdictOf(words: readonly string[], table: readonly Command[]): string[] | undefined {
  const [verb = '', ...rest] = words
  if (!(verdicts as readonly string[]).includes(verb) || !table.some(({ name }) => name === `approvals ${verb}`))
    return undefined
  return rest.length === 0 ? ['approvals', 'list'] : ['approvals', verb, '--', ...rest]
}

/** `/order`, `/workflow <id>`, `/session <agent id>`. */
function short(words: readonly string[], table: readonly Command[]): string[] | undefined {
  const [group = '', id, ...rest] = words
  const has = (name: string) => table.some((row) => row.name === `${group} ${name}`)
  if (id === undefined || id.startsWith('--')) return has('list') ? [group, 'list', ...words.slice(1)] : undefined
  if (/^[a-z]+$/.test(id)) return undefined
  if (group === 'session') return [group, 'list', '--agent-id', id, ...rest]
  return has('show') ? [group, 'show', id, ...rest] : undefined
}

/** Moves words outside options to where the command expects them. */
function gathered(row: Command, words: readonly string[]): string[] {
  const options: string[] = []
  const loose: string[] = []
  const byFlag = new Map<string, Option>()
  for (const option of Object.values(row.options)) {
    for (const flag of option.flags.match(/(^|\s)--?[a-z-]+/g) ?? []) byFlag.set(flag.trim(), option)
  }
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!
    if (!/^--?[a-z]/.test(word)) {
      loose.push(word)
      continue
    }
    options.push(word)
    const option = byFlag.get(word)
    if (option?.schema !== undefined && i + 1 < words.length) options.push(words[++i]!)
  }
  const given = (flag: string) => options.some((word) => word === flag || word.startsWith(`${flag}=`))
  if ('agentId' in row.options && !given('--agent-id') && loose.length > 0) options.push('--agent-id', loose.shift()!)
  if (row.options.task !== undefined && row.options.task.many === undefined && !given('--task') && !given('--input')) {
    const task = loose.splice(row.argument !== undefined && row.argument.choices === undefined ? 1 : 0)
    if (task.length > 0) options.push(`--task=${task.join(' ')}`)
  }
  const name = row.name.split(' ')
  if (loose.length === 0) return [...name, ...options]
  // `--` allows a query that begins with a dash.
  return [...name, ...options, '--', ...(row.argument?.choices === undefined ? [loose.join(' ')] : loose)]
}

/** Splits words like a shell: spaces, quotes, backslashes. @returns undefined if a quote is open */
export function splitWords(line: string): string[] | undefined {
  const words: string[] = []
  let word: string | undefined
  let quote: string | undefined
  for (let i = 0; i < line.length; i++) {
    const character = line[i]!
    if (quote !== undefined) {
      if (character === quote) quote = undefined
      else if (character === '\\' && quote === '"' && /["\\]/.test(line[i + 1] ?? '')) word += line[++i]!
      else word += character
    } else if (/["']/.test(character) && word === undefined) {
      quote = character
      word = ''
    } else if (/\s/.test(character)) {
      if (word !== undefined) words.push(word)
      word = undefined
    } else word = (word ?? '') + character
  }
  if (quote !== undefined) return undefined
  return word === undefined ? words : [...words, word]
}
