import { ConfigError, describeRefusal, quote } from './config-error.ts'
import { Env, type Environment, type VariableName } from './env.ts'
import { replaceFile } from './replace-file.ts'
import { ownSecrets } from './secrets.ts'
import { readSettingsText } from './settings-text.ts'
import { ApiKeyText } from './values.ts'

/** Variables of the node that keys.env may hold: access to model providers and facilitators, never to money. */
const providerVariables: readonly VariableName[] = [
  'OPENAI_API_KEY',
  'OPENAI_BASE_URL',
  'ANTHROPIC_API_KEY',
  'GOOGLE_API_KEY',
  'OPENROUTER_API_KEY',
  'CDP_API_KEY_ID',
  'CDP_API_KEY_SECRET',
]
const KEYS_MAX = 64

/**
 * Reads the model keys that `stoa init` stored in `keys.env`: lines of `NAME=value` and comments. The environment
 * overrides them.
 *
 * @throws ConfigError with file and line, and never with the value
 */
export async function readKeysFile(path: string): Promise<Environment> {
  const text = await readSettingsText(path)
  return text === undefined ? {} : parseKeysFile(text, path)
}

function parseKeysFile(text: string, path: string): Environment {
  const keys: Record<string, string> = {}
  const refusals: string[] = []
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (/^\s*(#|$)/.test(line)) continue
    const at = `${path}:${index + 1}`
    const [, name, value] = /^\s*(?:export\s+)?([A-Z][A-Z0-9_]{0,63})\s*=(.*)$/.exec(line) ?? []
    if (name === undefined || value === undefined) refusals.push(`${at}: expected NAME=value, such as OPENAI_API_KEY=…`)
    else {
      const refusal = refusalOf(name, unquoted(value))
      if (refusal !== undefined) refusals.push(`${at}: ${refusal}`)
      else if (unquoted(value) !== '') keys[name] = unquoted(value)
    }
  }
  if (Object.keys(keys).length > KEYS_MAX)
    refusals.push(`${path}: the file has more than ${KEYS_MAX} keys: remove some`)
  if (refusals.length > 0) throw new ConfigError(refusals)
  return keys
}

/** Stores a key in the file, readable only by its owner. Other lines are kept. @throws ConfigError */
export async function storeKey(path: string, name: string, value: string): Promise<void> {
  const refusal = value === '' ? `${name}: the key is empty: give a key` : refusalOf(name, value)
  if (refusal !== undefined) throw new ConfigError(refusal)
  const earlier =
    (await readSettingsText(path)) ??
    '# Keys of model providers, written by stoa init. Variables of the environment override this file.\n'
  parseKeysFile(earlier, path)
  const others = earlier.split(/\r?\n/).filter((line) => !new RegExp(`^\\s*(?:export\\s+)?${name}\\s*=`).test(line))
  await replaceFile(path, `${others.join('\n').trimEnd()}\n${name}=${value}\n`, 0o600)
}

/** Merges the environment over the keys of the file. An empty variable counts as unset. */
export function overKeys(keys: Environment, environment: Environment): Environment {
  const given = Object.entries(environment).filter(([, text]) => text !== undefined && text.trim() !== '')
  return { ...keys, ...Object.fromEntries(given) }
}

function refusalOf(name: string, value: string): string | undefined {
  const own = Object.hasOwn(Env.shape, name)
  const provider = providerVariables.find((variable) => variable === name)
  // Other variables, such as PATH, would change the environment of programs that this node runs.
  const isKey = /_(KEY|TOKEN|SECRET)$/.test(name)
  if (provider === undefined && (own || ownSecrets.test(name) || !isKey)) {
    const why = isKey ? 'no secret of the node itself' : 'only names that end in _KEY, _TOKEN or _SECRET'
    return `${quote(name)} does not belong in this file, which holds ${why}: set ${name} in the environment`
  }
  if (value === '') return undefined
  const parsed = (provider === undefined ? ApiKeyText : Env.shape[provider]).safeParse(value)
  return parsed.success ? undefined : describeRefusal(name, undefined, parsed.error.issues[0]!)
}

function unquoted(value: string): string {
  const text = value.trim()
  return /^(["']).*\1$/.test(text) ? text.slice(1, -1) : text
}
