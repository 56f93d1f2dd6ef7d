import { type AgentError, cannotRun } from './runtime.ts'

export const llmProviders = ['openai', 'anthropic', 'google', 'openrouter', 'ollama', 'openai-compatible'] as const
export type LlmProvider = (typeof llmProviders)[number]

/** The meaning of a `model` text (D10). */
type ModelName =
  | { kind: 'builtin'; name: string }
  | { kind: 'llm'; provider: LlmProvider /** The provider's own name, with or without slashes. */; modelId: string }

/** Other common names of providers, and the name used here. */
const otherNames: Readonly<Record<string, string>> = {
  gemini: 'google',
  googleai: 'google',
  claude: 'anthropic',
  gpt: 'openai',
  chatgpt: 'openai',
  vllm: 'openai-compatible',
  lmstudio: 'openai-compatible',
  'llama.cpp': 'openai-compatible',
  localai: 'openai-compatible',
  builtins: 'builtin',
}

/**
 * model    = provider "/" modelId | "builtin/" name | bare
 * bare     = "gemini-…" → google | "claude-…" → anthropic | "gpt-…", "chatgpt-…", "o1…" → openai
 *
 * Any other name is a model of the server at OPENAI_BASE_URL, if there is one (`Qwen/Qwen3-8B`).
 * @throws AgentError 'AGENT_NOT_RUNNABLE' that says how to write the name.
 */
export function parseModelName(text: string, options: { hasBaseUrl: boolean }): ModelName {
  const model = text.trim()
  if (!/^[\x21-\x7e]{1,200}$/.test(model)) throw notUnderstood(text, 'a model name has no spaces or special characters')
  refuseScheme(model)
  const slash = model.indexOf('/')
  if (slash > 0) {
    const prefix = model.slice(0, slash).toLowerCase()
    const rest = model.slice(slash + 1)
    if (isProvider(prefix) || prefix === 'builtin') {
      if (rest === '') throw notUnderstood(text, `write ${prefix}/<model>`)
      return isProvider(prefix) ? { kind: 'llm', provider: prefix, modelId: rest } : { kind: 'builtin', name: rest }
    }
    const meant = otherNames[prefix]
    if (meant !== undefined && Object.hasOwn(otherNames, prefix)) throw notUnderstood(text, `write ${meant}/${rest}`)
  }
  const provider = providerOfBareName(model) ?? (options.hasBaseUrl ? 'openai-compatible' : undefined)
  if (provider !== undefined) return { kind: 'llm', provider, modelId: model }
  throw notUnderstood(
    text,
    `write provider/model with one of ${llmProviders.join(', ')}, or builtin/<name>, or set OPENAI_BASE_URL to the server that has it`,
  )
}

/** The full form of a model's name. Parsing it gives the same model. */
export function formatModelName(model: ModelName): string {
  return model.kind === 'builtin' ? `builtin/${model.name}` : `${model.provider}/${model.modelId}`
}

function isProvider(text: string): text is LlmProvider {
  return (llmProviders as readonly string[]).includes(text)
}

function providerOfBareName(model: string): LlmProvider | undefined {
  if (/^gemini-./i.test(model)) return 'google'
  if (/^claude-./i.test(model)) return 'anthropic'
  if (/^(?:gpt-.|chatgpt-.|o[1-9][0-9]?(?:-|$))/i.test(model)) return 'openai'
  return undefined
}

function refuseScheme(model: string): void {
  const scheme = /^(https?|module|command|file):/i.exec(model)?.[1]?.toLowerCase()
  if (scheme === undefined) return
  if (scheme === 'command')
    throw notUnderstood(model, 'give the program as `command: [program, argument, …]`, not as a model')
  const key = scheme.startsWith('http') ? 'http: <url>' : 'module: <path>'
  throw notUnderstood(model, `give it as \`${key}\` in agents.yaml, not as a model`)
}

function notUnderstood(text: string, fix: string): AgentError {
  return cannotRun(`model ${JSON.stringify(text.slice(0, 80))} is not understood: ${fix}`)
}
