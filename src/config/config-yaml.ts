import { isMap, isNode, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml'
import * as z from 'zod'
import { SourceSetting, SourceSettings } from '../schema/source-setting.ts'
import { WEBHOOKS_MAX, WebhookSetting } from '../schema/webhook.ts'
import { ConfigError, describeRefusal, nearest, quote } from './config-error.ts'
import { type Settings, settingEntries } from './settings.ts'

/** The keys of config.yaml: the setting of each key, and the schema of its text. */
const keys = new Map(settingEntries.map(([setting, { key, schema }]) => [key, { setting, schema }]))
/** The keys that config.yaml may hold, in the order of the documentation. */
export const configKeys: readonly string[] = [...keys.keys()]
const groups = new Set(configKeys.flatMap((key) => (key.includes('.') ? [key.split('.')[0]!] : [])))
/** The settings that are lists of groups. */
const lists = { webhooks: z.array(WebhookSetting).max(WEBHOOKS_MAX), sources: SourceSettings }
const fieldsOf = { webhooks: Object.keys(WebhookSetting.shape), sources: Object.keys(SourceSetting.shape) }
/** Values that often hold a key, so errors do not show them. */
const unshownKeys = new Set(['rpc_url'])

/** The settings of a config.yaml. An empty text has none. @throws ConfigError with file and line */
export function parseConfigYaml(text: string, path: string): Settings {
  const lines = new LineCounter()
  // The failsafe schema keeps every scalar as its text: 0.30 does not become a float.
  const document = parseDocument(text, { lineCounter: lines, schema: 'failsafe', prettyErrors: false })
  const at = (offset: number | undefined) => `${path}:${lines.linePos(offset ?? 0).line}`
  const [broken] = document.errors
  if (broken !== undefined) throw new ConfigError(`${at(broken.pos[0])}: not valid YAML: ${broken.message}`)

  const settings: Record<string, unknown> = {}
  const refusals: string[] = []
  visit(document.contents, '')
  if (refusals.length > 0) throw new ConfigError(refusals)
  return settings as Settings

  function visit(node: Node | null, group: string): void {
    if (isUnset(node)) return
    if (!isMap(node)) {
      refusals.push(
        `${at(node?.range?.[0])}: expected ${group === '' ? 'settings' : `settings under ${group}`}, such as ${example(group)}`,
      )
      return
    }
    for (const { key, value } of node.items) {
      const name = isScalar(key) ? String(key.value) : ''
      const place = isScalar(key) ? key.range?.[0] : node.range?.[0]
      const full = group === '' ? name : `${group}.${name}`
      if (full === 'webhooks' || full === 'sources') readList(full, at(place), value as Node | null)
      else if (groups.has(full)) visit(value as Node | null, full)
      else read(full, at(place), value as Node | null)
    }
  }

  function readList(name: keyof typeof lists, source: string, node: Node | null): void {
    if (isUnset(node)) return
    const parsed = lists[name].safeParse(node!.toJS(document))
    if (parsed.success) settings[name] = parsed.data
    for (const issue of parsed.error?.issues ?? []) {
      const path = [name, ...issue.path]
      // Where the value is missing, its entry has a line.
      const found = path.map((_, index) => document.getIn(path.slice(0, index + 1), true)).findLast(isNode)
      const line = found === node || found === undefined ? source : at(found.range?.[0])
      refusals.push(`${line}: ${path.join('.')}: ${listIssueText(issue, fieldsOf[name])}`)
    }
  }

  function read(key: string, source: string, node: Node | null): void {
    const entry = keys.get(key)
    if (entry === undefined) {
      refusals.push(unknownKey(source, key))
      return
    }
    if (isUnset(node)) return
    const given = textOf(node)
    if (given === undefined) {
      refusals.push(`${source}: ${key}: expected a plain value or a list of them`)
      return
    }
    const parsed = entry.schema.safeParse(given)
    if (parsed.success) settings[entry.setting] = parsed.data
    else {
      const shown = unshownKeys.has(key) ? undefined : given
      const [issue] = parsed.error.issues
      // A list given for a single value fails with zod's own message.
      if (issue?.code === 'custom') refusals.push(describeRefusal(`${source}: ${key}`, shown, issue))
      else refusals.push(`${source}: ${key}: expected one value, not a list`)
    }
  }
}

/** @param fields those of an entry of the list */
function listIssueText(issue: z.core.$ZodIssue, fields: readonly string[]): string {
  if (issue.code === 'unrecognized_keys') {
    const [key = ''] = issue.keys
    const meant = nearest(key, fields)
    return `${quote(key)} is not known: ${meant === undefined ? `expected one of ${fields.join(', ')}` : `did you mean ${meant}?`}`
  }
  if (issue.code !== 'invalid_type') return issue.message
  if (issue.message.endsWith('received undefined')) return 'is missing'
  if (issue.expected === 'object') return `expected settings: ${fields.join(', ')}`
  if (issue.expected !== 'array') return 'expected one value, not a list'
  return issue.path.length > 0 ? 'expected a list' : 'expected a list: begin each entry with "- " in a line of its own'
}

function textOf(node: Node | null): string | string[] | undefined {
  if (isScalar(node)) return String(node.value)
  if (!isSeq(node)) return undefined
  const texts = node.items.map((item) => (isScalar(item) ? String(item.value) : undefined))
  return texts.every((text) => text !== undefined) ? texts : undefined
}

function isUnset(node: Node | null): boolean {
  return node === null || (isScalar(node) && node.type === 'PLAIN' && /^(|~|null)$/i.test(String(node.value)))
}

function unknownKey(source: string, key: string): string {
  if (/private_?key|api_?key|token|secret|mnemonic/i.test(key)) {
    return `${source}: ${quote(key)} is not a setting: this file never holds keys or tokens; set them in the environment, or model keys with stoa init`
  }
  const meant = nearest(key, [...configKeys, ...groups, ...Object.keys(lists)])
  const hint = meant === undefined ? expectedBeside(key) : `did you mean ${meant}?`
  return `${source}: ${quote(key)} is not a setting: ${hint}`
}

/** What may stand where an unknown key stands: all settings would fill the screen. */
function expectedBeside(key: string): string {
  const group = key.slice(0, key.lastIndexOf('.') + 1)
  const beside =
    group === ''
      ? [...configKeys.filter((one) => !one.includes('.')), ...groups, ...Object.keys(lists)]
      : configKeys.filter((one) => one.startsWith(group))
  return beside.length === 1 ? `expected ${beside[0]}` : `expected one of ${beside.join(', ')}`
}

function example(group: string): string {
  return group === ''
    ? 'network: eip155:84532'
    : `${group}: { ${configKeys.find((key) => key.startsWith(`${group}.`))?.slice(group.length + 1)}: … }`
}
