import type { ProviderKeys } from '../config/secrets.ts'
import type { AvailableModels } from '../schema/own-agent.ts'
import { builtinAgents } from './builtin/builtins.ts'
import { formatModelName, type LlmProvider } from './model-name.ts'
import { modelsOf } from './model-server.ts'
import { accessTo, firstProvider } from './providers.ts'

/** Providers with the model list endpoint of OpenAI's API. */
const listing = ['openai', 'openai-compatible', 'openrouter', 'ollama'] as const

export type AvailableModelsDeps = { keys: ProviderKeys; fetch: typeof globalThis.fetch }

/** Lists what an agent can run on. Asks only servers with a configured key or address, and Ollama on this machine. */
export async function availableModels(
  { keys, fetch }: AvailableModelsDeps,
  stop: AbortSignal,
): Promise<AvailableModels> {
  const asked = listing.filter((provider) => provider !== 'openai' || !keys.openaiBaseUrl?.trim())
  const servers = await Promise.all(asked.map((provider) => server(provider, { keys, fetch }, stop)))
  const first = firstProvider(keys)
  return {
    servers: servers.filter((one) => one !== undefined),
    ...(first && { default: formatModelName({ kind: 'llm', ...first }) }),
    builtin: [...builtinAgents],
  }
}

async function server(provider: LlmProvider, { keys, fetch }: AvailableModelsDeps, stop: AbortSignal) {
  const access = accessOf(provider, keys)
  if (access === undefined) return undefined
  const { baseUrl, apiKey: key } = access
  const found = await modelsOf(fetch, { baseUrl, key }, stop)
  const url = withoutCredentials(baseUrl)
  if ('models' in found) {
    const models = found.models.map((modelId) => formatModelName({ kind: 'llm', provider, modelId }))
    return { provider, url, models }
  }
  // Ollama is optional, so its absence is not reported.
  if (provider === 'ollama') return undefined
  return { provider, url, models: [], problem: found.problem.replaceAll(baseUrl, url) }
}

function accessOf(provider: LlmProvider, keys: ProviderKeys) {
  try {
    return accessTo(provider, undefined, keys, () => undefined)
  } catch {
    return undefined
  }
}

function withoutCredentials(text: string): string {
  const url = new URL(text)
  url.username = ''
  url.password = ''
  return url.href.replace(/\/+$/, '')
}
