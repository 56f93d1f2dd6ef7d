import type { ProviderKeys } from '../config/secrets.ts'
import type { LlmProvider } from './model-name.ts'
import { cannotRun } from './runtime.ts'

/** The URL and key of a provider. Secret: never logged, never in an error. */
export type Access = {
  /** As the provider's API expects it, without a slash at the end. */
  baseUrl: string
  apiKey: string | undefined
  /** The environment variable that holds the key. Errors may name it. */
  keyVariable: string
}

type Provider = {
  keyVariable: string
  baseUrl: string
  keyNeeded: boolean
  /** The model of an agent without `model`: small, fast and cheap. */
  defaultModel?: string
}

const providers: Readonly<Record<LlmProvider, Provider>> = {
  openai: {
    keyVariable: 'OPENAI_API_KEY',
    baseUrl: 'https://api.openai.com/v1',
    keyNeeded: true,
    defaultModel: 'gpt-5.4-mini',
  },
  anthropic: {
    keyVariable: 'ANTHROPIC_API_KEY',
    baseUrl: 'https://api.anthropic.com/v1',
    keyNeeded: true,
    defaultModel: 'claude-haiku-5-5',
  },
  google: {
    keyVariable: 'GOOGLE_API_KEY',
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
    keyNeeded: true,
    defaultModel: 'gemini-flash-latest',
  },
  openrouter: {
    keyVariable: 'OPENROUTER_API_KEY',
    baseUrl: 'https://openrouter.ai/api/v1',
    keyNeeded: true,
    defaultModel: 'openrouter/auto',
  },
  ollama: { keyVariable: 'OLLAMA_API_KEY', baseUrl: 'http://127.0.0.1:11434/v1', keyNeeded: false },
  'openai-compatible': { keyVariable: 'OPENAI_API_KEY', baseUrl: '', keyNeeded: false },
}

/** The providers that need a key, in search order. */
const keyedProviders = ['openai', 'anthropic', 'google', 'openrouter'] as const

/** An agent without `model` runs if one of these variables is set. */
export const keyVariables: readonly string[] = keyedProviders.map((provider) => providers[provider].keyVariable)

/** Variables with this node's own secrets and settings. They are never sent to a provider as a key (T12, T21). */
const OWN_VARIABLE = /^(?:NODE_|ETHEREUM_|SELLER_|BUYER_|DATABASE_)|PRIVATE_KEY|MNEMONIC|SEED_PHRASE|^FACILITATOR_URL$/

/**
 * The first provider with a key, and its default model (D10). Skips OpenAI if OPENAI_BASE_URL is set, because
 * OPENAI_API_KEY does not say which models that server has.
 */
export function firstProvider(keys: ProviderKeys): { provider: LlmProvider; modelId: string } | undefined {
  for (const provider of keyedProviders) {
    if (provider === 'openai' && present(keys.openaiBaseUrl)) continue
    const modelId = providers[provider].defaultModel
    if (present(keys[provider]) && modelId !== undefined) return { provider, modelId }
  }
  return undefined
}

export function keyVariableOf(provider: LlmProvider): string {
  return providers[provider].keyVariable
}

export function providerOfKeyVariable(variable: string): { provider: LlmProvider; modelId: string } | undefined {
  for (const provider of keyedProviders) {
    const { keyVariable, defaultModel } = providers[provider]
    if (keyVariable === variable && defaultModel !== undefined) return { provider, modelId: defaultModel }
  }
  return undefined
}

/** Refuses an `api_key_env` that would send a secret to the wrong party. @throws AgentError 'AGENT_NOT_RUNNABLE' */
export function checkKeyVariable(variable: string, provider: LlmProvider): void {
  if (OWN_VARIABLE.test(variable)) {
    throw cannotRun(`api_key_env: ${variable} belongs to this node and is never sent to a model provider`)
  }
  const owner = keyedProviders.find((one) => providers[one].keyVariable === variable)
  const isCompatible = owner === 'openai' && provider === 'openai-compatible'
  if (owner !== undefined && owner !== provider && !isCompatible) {
    throw cannotRun(
      `api_key_env: ${variable} is a key of ${owner} and is not sent to ${provider}: name the variable that holds the key of ${provider}`,
    )
  }
}

/** Refuses a variable that holds a secret of the node or a provider's key. @throws AgentError 'AGENT_NOT_RUNNABLE' */
export function checkTokenVariable(field: string, variable: string): void {
  const owner = keyedProviders.find((one) => providers[one].keyVariable === variable)
  if (owner === undefined && !OWN_VARIABLE.test(variable)) return
  throw cannotRun(
    `${field}: ${variable} belongs to ${owner ?? 'this node'} and is sent to no other server: name a variable of its own`,
  )
}

/**
 * @param keyVariable undefined: the provider's usual variable
 * @throws AgentError 'AGENT_NOT_RUNNABLE' that names the variable to set
 */
export function accessTo(
  provider: LlmProvider,
  keyVariable: string | undefined,
  keys: ProviderKeys,
  readKey: (name: string) => string | undefined,
): Access {
  const { keyVariable: usualVariable, baseUrl, keyNeeded } = providers[provider]
  const variable = keyVariable ?? usualVariable
  const apiKey = (keyVariable === undefined ? usualKey(provider, keys) : readKey(keyVariable))?.trim()
  if (!present(apiKey) && (keyNeeded || keyVariable !== undefined)) {
    throw cannotRun(`the agent's model key is missing: its seller must set ${variable}`)
  }
  if (present(apiKey) && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw cannotRun(`the agent's model key is not a key: its seller must correct ${variable}`)
  }
  const own = provider === 'openai' || provider === 'openai-compatible' ? keys.openaiBaseUrl : undefined
  return {
    baseUrl: present(own) ? checkBaseUrl(own) : needed(baseUrl),
    apiKey: apiKey || undefined,
    keyVariable: variable,
  }
}

function usualKey(provider: LlmProvider, keys: ProviderKeys): string | undefined {
  if (provider === 'ollama') return undefined
  return provider === 'openai-compatible' ? keys.openai : keys[provider]
}

function present(text: string | undefined): text is string {
  return text !== undefined && text.trim() !== ''
}

function needed(baseUrl: string): string {
  if (baseUrl !== '') return baseUrl
  throw cannotRun(
    "the agent's model server is not configured: its seller must set OPENAI_BASE_URL, for example http://127.0.0.1:8000/v1",
  )
}

function checkBaseUrl(text: string): string {
  const url = URL.parse(text.trim())
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw cannotRun('OPENAI_BASE_URL is not an http(s) URL: its seller must correct it')
  }
  return url.href.replace(/\/+$/, '')
}
