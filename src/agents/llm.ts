import { generateText, isStepCount, type LanguageModel, type ModelMessage, streamText } from 'ai'
import type { Logger } from '../lib/logger.ts'
import type { reasoningEfforts } from '../schema/agent.ts'
import { guardFetch } from './guarded-fetch.ts'
import { explainLlmError } from './llm-error.ts'
import type { LlmProvider } from './model-name.ts'
import type { Access } from './providers.ts'
import { type AgentCall, AgentError, type Exchange, type OnOutput } from './runtime.ts'
import type { ToolServerAccess } from './toolbox.ts'

/** After the first attempt, for failures that may pass: no connection, 408, 409, 429, 5xx. */
const RETRIES_MAX = 2
/** Turns of one task between the model and its tools, the answer included. */
const STEPS_MAX = 12
/** How much of a caller's earlier talk a model is shown, in characters. The newest exchanges count. */
const HISTORY_LENGTH_MAX = 100_000

// The SDK would print what it has to say about a model's settings to the terminal.
globalThis.AI_SDK_LOG_WARNINGS ??= false

export type LlmOptions = {
  name: string
  provider: LlmProvider
  modelId: string
  access: Access
  /** What the model is told to be: private instructions, or the agent's description (D10, D47). */
  instruction: string
  /** How it is asked, where its operator says. */
  parameters: LlmParameters
  outputBytesMax: number
  /** MCP servers whose tools it may use. */
  toolServers: readonly ToolServerAccess[]
}
export type LlmParameters = {
  temperature?: number
  maxOutputTokens?: number
  reasoning?: (typeof reasoningEfforts)[number]
}
export type LlmDeps = { fetch: typeof fetch; readEnv(name: string): string | undefined; logger: Logger }

/** A language model ready to work for one agent. */
export interface LlmModel {
  /** @throws AgentError */
  run(call: AgentCall): Promise<string>
}

/**
 * Opens a model through the AI SDK.
 *
 * The instruction is the agent's own and travels as such; what a buyer writes is only ever a user's message (T9, T10).
 */
export async function openModel(options: LlmOptions, deps: LlmDeps): Promise<LlmModel> {
  const { provider, modelId, access, instruction, parameters } = options
  const model = await languageModel(provider, modelId, access, guardFetch(deps.fetch, options.outputBytesMax))
  return {
    async run({ input, history, signal, onOutput }) {
      if (input.trim() === '') throw new AgentError('AGENT_FAILED', 'the task is empty')
      const messages: ModelMessage[] = [...remembered(history), { role: 'user', content: input }]
      const toolbox = await openTools(options, deps, signal)
      const request = {
        model,
        instructions: instruction,
        messages,
        ...(toolbox !== undefined && { tools: toolbox.tools, stopWhen: isStepCount(STEPS_MAX) }),
        abortSignal: signal,
        maxRetries: RETRIES_MAX,
        ...parameters,
      }
      const result = await (onOutput === undefined ? generateText(request) : streamed(request, onOutput))
        .catch((error: unknown) => {
          throw explainLlmError(error, { agent: options.name, provider, modelId, access, signal }, deps.logger)
        })
        .finally(() => toolbox?.close())
      if (result.text.trim() !== '') return result.text
      throw new AgentError(
        'AGENT_FAILED',
        `the model gave no text (it ended with ${JSON.stringify(result.finishReason)})`,
      )
    },
  }
}

/** The same, its words shown as they come. The first error ends it: the SDK would go on and tell of it elsewhere. */
async function streamed(request: Parameters<typeof streamText>[0], onOutput: OnOutput) {
  let failure: { error: unknown } | undefined
  const onError = ({ error }: { error: unknown }) => {
    failure ??= { error }
  }
  const stream = streamText({ ...request, onError })
  for await (const text of stream.textStream) onOutput(text)
  if (failure !== undefined) throw failure.error
  return { text: await stream.text, finishReason: await stream.finishReason }
}

/** Tools load with the first agent that has any. */
async function openTools({ name, toolServers }: LlmOptions, deps: LlmDeps, signal: AbortSignal) {
  if (toolServers.length === 0) return undefined
  const { openToolbox } = await import('./toolbox.ts')
  return openToolbox(toolServers, { ...deps, logger: deps.logger.child({ agent: name }) }, signal)
}

/** Always a model object: a bare name would send the SDK to a gateway nobody chose. The environment is never consulted. */
async function languageModel(
  provider: LlmProvider,
  modelId: string,
  { baseUrl: baseURL, apiKey }: Access,
  guardedFetch: typeof fetch,
): Promise<Exclude<LanguageModel, string>> {
  switch (provider) {
    case 'openai': {
      const { createOpenAI } = await import('@ai-sdk/openai')
      // Chat completions: other servers at OPENAI_BASE_URL speak it too, and OpenAI does not store them by default.
      return createOpenAI({ baseURL, apiKey: needed(apiKey), fetch: guardedFetch }).chat(modelId)
    }
    case 'anthropic': {
      const { createAnthropic } = await import('@ai-sdk/anthropic')
      return createAnthropic({ baseURL, apiKey: needed(apiKey), fetch: guardedFetch }).languageModel(modelId)
    }
    case 'google': {
      const { createGoogle } = await import('@ai-sdk/google')
      return createGoogle({ baseURL, apiKey: needed(apiKey), fetch: guardedFetch }).languageModel(modelId)
    }
    case 'openrouter':
    case 'ollama':
    case 'openai-compatible': {
      const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
      const key = apiKey === undefined ? {} : { apiKey }
      return createOpenAICompatible({ name: provider, baseURL, fetch: guardedFetch, ...key }).chatModel(modelId)
    }
  }
}

/** @throws if `accessTo` let a missing key pass: the SDK would go and look in the environment. */
function needed(apiKey: string | undefined): string {
  if (apiKey === undefined) throw new Error('no key')
  return apiKey
}

/** The newest exchanges that fit, oldest first. Providers refuse empty messages, so an empty half drops its exchange. */
function remembered(history: readonly Exchange[]): ModelMessage[] {
  const messages: ModelMessage[] = []
  let length = 0
  for (const { input, output } of history.toReversed()) {
    if (input.trim() === '' || output.trim() === '') continue
    length += input.length + output.length
    if (length > HISTORY_LENGTH_MAX) break
    messages.unshift({ role: 'user', content: input }, { role: 'assistant', content: output })
  }
  return messages
}
