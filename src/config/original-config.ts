import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import * as z from 'zod'
import { AgentDefinition } from '../schema/agent.ts'
import { parsePrice } from '../schema/amount.ts'
import { ConfigError } from './config-error.ts'
import { readSettingsText } from './settings-text.ts'

/** The settings of the original node of this protocol, converted for Stoa. */
export type OriginalConfig = {
  agents: AgentDefinition[]
  /** Variables for keys.env. */
  keys: Readonly<Record<string, string>>
  /** Keys for config.yaml. */
  settings: Readonly<Record<string, string | number | readonly string[]>>
  /** Settings without a counterpart in Stoa. */
  notes: string[]
}

const text = z.string().nullish()
const Profile = z.looseObject({
  name: z.string(),
  description: text,
  price: z.number().nullish(),
  model: text,
  api_key: text,
  provider: text,
  openai_api_key: text,
  openai_base_url: text,
  on_chain: z.boolean().nullish(),
})
const AgentsFile = z.looseObject({ agents: z.array(Profile).nullish() })
const ConfigFile = z.looseObject({
  rpc_url: text,
  p2p_port: z.int().min(0).max(65_535).nullish(),
  bootstrap_peers: z.array(z.string()).nullish(),
})

/**
 * Reads `agents.yaml` and `config.yaml` of the original node, from a directory or from one of the two files.
 *
 * @throws ConfigError with the file and what is wrong in it
 */
export async function readOriginalConfig(path: string): Promise<OriginalConfig> {
  const isDirectory = await stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  )
  const paths = isDirectory ? [join(path, 'agents.yaml'), join(path, 'config.yaml')] : [path]
  const found: OriginalConfig = { agents: [], keys: {}, settings: {}, notes: [] }
  let read = 0
  for (const file of paths) {
    const yaml = await readSettingsText(file)
    if (yaml === undefined) continue
    read++
    const json = await parsed(yaml, file)
    takeAgents(checked(AgentsFile, json, file), file, found)
    takeSettings(checked(ConfigFile, json, file), found)
  }
  if (read === 0) throw new ConfigError(`${path}: there is no agents.yaml and no config.yaml`)
  return found
}

async function parsed(yaml: string, file: string): Promise<unknown> {
  const { parseDocument } = await import('yaml')
  const document = parseDocument(yaml)
  const [error] = document.errors
  if (error !== undefined) throw new ConfigError(`${file}: ${error.message.split('\n')[0]}`)
  return document.toJS({ maxAliasCount: 0 }) ?? {}
}

function checked<T>(schema: z.ZodType<T>, json: unknown, file: string): T {
  const result = schema.safeParse(json)
  if (result.success) return result.data
  const { path, message } = result.error.issues[0]!
  throw new ConfigError(`${file}: ${path.join('.') || 'the file'}: ${message}`)
}

function takeAgents({ agents }: z.infer<typeof AgentsFile>, file: string, found: OriginalConfig): void {
  for (const profile of agents ?? []) {
    const { name } = profile
    const model = modelOf(profile)
    const key = keyOf(profile, model, found)
    // An empty description, which the original node allows, falls back to the name: the model is told the description.
    const description = profile.description?.trim() || name
    const definition = AgentDefinition.safeParse({
      ...{ name, description, price: profile.price ?? 0 },
      ...(model !== undefined && { model }),
      ...(key !== undefined && { api_key_env: key }),
    })
    if (!definition.success) {
      const { path, message } = definition.error.issues[0]!
      throw new ConfigError(`${file}: agent ${name}: ${path.join('.')} ${message}`)
    }
    found.agents.push({ ...definition.data, price: parsePrice(profile.price ?? 0) })
    if (profile.on_chain === true) found.notes.push(`${name}: mint a new token with stoa agent register-onchain`)
  }
}

/** True if an agent runs on Google's models. Without a provider its keys decide, Google's first. */
function isGoogles({ provider, api_key, openai_api_key, openai_base_url, model }: z.infer<typeof Profile>): boolean {
  const named = provider?.trim().toLowerCase()
  if (named) return named !== 'openai'
  if (api_key) return true
  return !(openai_api_key || openai_base_url || model?.startsWith('gpt-'))
}

/** Adds the provider, which the original node does not write. A model with its own URL is OpenAI-compatible. */
function modelOf(profile: z.infer<typeof Profile>): string | undefined {
  const { model, openai_base_url } = profile
  if (!model) return undefined
  if (openai_base_url && !isGoogles(profile)) return `openai-compatible/${model}`
  if (model.includes('/')) return model
  return isGoogles(profile) ? `google/${model}` : `openai/${model}`
}

/** Stores the key of an agent. @returns the variable to name in `api_key_env`, if it is not the provider's own */
function keyOf(profile: z.infer<typeof Profile>, model: string | undefined, found: OriginalConfig): string | undefined {
  const keys = found.keys as Record<string, string>
  const isGoogle = isGoogles(profile)
  const key = (isGoogle ? profile.api_key : profile.openai_api_key) || undefined
  const variable = isGoogle ? 'GOOGLE_API_KEY' : 'OPENAI_API_KEY'
  const url = isGoogle ? undefined : profile.openai_base_url
  if (url && (keys.OPENAI_BASE_URL ?? url) !== url) {
    found.notes.push(`${profile.name}: ${url} was not imported, because all agents of a node share one OPENAI_BASE_URL`)
  } else if (url) keys.OPENAI_BASE_URL = url
  if (key === undefined) return undefined
  if ((keys[variable] ?? key) === key) {
    keys[variable] = key
    return undefined
  }
  if (model === undefined) {
    found.notes.push(`${profile.name}: the key of this agent was not imported, because the agent names no model`)
    return undefined
  }
  const own = `${
    profile.name
      .toUpperCase()
      .replaceAll(/[^A-Z0-9]+/g, '_')
      .replace(/^[^A-Z]+/, '')
      .slice(0, 40) || 'AGENT'
  }_API_KEY`
  keys[own] = key
  return own
}

function takeSettings({ rpc_url, p2p_port, bootstrap_peers }: z.infer<typeof ConfigFile>, found: OriginalConfig): void {
  const settings = found.settings as Record<string, string | number | readonly string[]>
  if (rpc_url) settings.rpc_url = rpc_url
  if (p2p_port != null) settings['p2p.port'] = p2p_port
  if (bootstrap_peers?.length) settings['p2p.bootstrap'] = bootstrap_peers
}
