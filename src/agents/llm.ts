import { generateText, isStepCount, type LanguageModel, type ModelMessage, streamText } from 'ai'
import type { Logger } from '../lib/logger.ts'
import type { reasoningEfforts } from '../schema/agent.ts'
import { guardFetch } from './guarded-fetch.ts'
import { explainLlmError } from './llm-error.ts'
import type { LlmProvider } from './model-name.ts'
import type { Access } from './providers.ts'
import { type AgentCall, AgentError, type Exchange, type OnOutput, type Usage } from './runtime.ts'
import type { ToolServerAccess } from './toolbox.ts'

/** Retries after failures that may pass: no connection, 408, 409, 429, 5xx. */
const RETRIES_MAX = 2
/** Turns of one task between the model and its tools, including the answer. */
const STEPS_MAX = 12
/** Characters of a caller's history that a model sees. The newest exchanges are used. */
const HISTORY_LENGTH_MAX = 100_000

// The SDK would print warnings about model settings to the terminal.
globalThis.AI_SDK_LOG_WARNINGS ??= false

export type LlmOptions = {
  name: string
  provider: LlmProvider
  modelId: string
  access: Access
  instruction: string
  parameters: LlmParameters
  outputBytesMax: number
  toolServers: readonly ToolServerAccess[]
  /** True: a stream asks the server for its usage. Some servers refuse the option, so only metered agents send it. */
  countsTokens: boolean
}
export type LlmParameters = {
  temperature?: number
  maxOutputTokens?: number
  reasoning?: (typeof reasoningEfforts)[number]
}
export type LlmDeps = { fetch: typeof fetch; readEnv(name: string): string | undefined; logger: Logger }

export interface LlmModel {
  /** @throws AgentError */
  run(call: AgentCall): Promise<string>
}

/** The agent's instruction is the system instruction. A buyer's text is only ever a user message (T9, T10). */
export async function openModel(options: LlmOptions, deps: LlmDeps): Promise<LlmModel> {
  const { provider, modelId, access, instruction, parameters } = options
  const guarded = { fetch: guardFetch(deps.fetch, options.outputBytesMax), countsTokens: options.countsTokens }
  const model = await languageModel(provider, modelId, access, guarded)
  return {
    async run({ input, history, signal, onOutput, onUsage }) {
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
      const result = await (onOutput === undefined ? generateText(request).then(read) : streamed(request, onOutput))
        .catch((error: unknown) => {
          throw explainLlmError(error, { agent: options.name, provider, modelId, access, signal }, deps.logger)
        })
        .finally(() => toolbox?.close())
      if (result.text.trim() !== '') {
        onUsage?.(result.usage)
        return result.text
      }
      throw new AgentError(
        'AGENT_FAILED',
        `the model gave no text (it ended with ${JSON.stringify(result.finishReason)})`,
      )
    },
  }
}

/** Shows text as it arrives. The first error ends the run: the SDK would continue and report it elsewhere. */
async function streamed(request: Parameters<typeof streamText>[0], onOutput: OnOutput) {
  let failure: { error: unknown } | undefined
  const onError = ({ error }: { error: unknown }) => {
    failure ??= { error }
  }
  const stream = streamText({ ...request, onError })
  for await (const text of stream.textStream) await onOutput(text)
  if (failure !== undefined) throw failure.error
  return read({
    text: await stream.text,
    finishReason: await stream.finishReason,
    totalUsage: await stream.totalUsage,
  })
}

/** The usage is that of all turns between the model and its tools. */
function read<R>({ text, finishReason, totalUsage }: { text: string; finishReason: R; totalUsage: Usage }) {
  const { inputTokens, outputTokens } = totalUsage
  return { text, finishReason, usage: { inputTokens, outputTokens } }
}

/** The tool code loads with the first agent that has tools. */
async function openTools({ name, toolServers }: LlmOptions, deps: LlmDeps, signal: AbortSignal) {
  if (toolServers.length === 0) return undefined
  const { openToolbox } = await import('./toolbox.ts')
  return openToolbox(toolServers, { ...deps, logger: deps.logger.child({ agent_name: name }) }, signal)
}

/** Returns a model object. A plain name would make the SDK call its own gateway. The environment is never read. */
async function languageModel(
  provider: LlmProvider,
  modelId: string,
  { baseUrl: baseURL, apiKey }: Access,
  { fetch: guardedFetch, countsTokens }: { fetch: typeof fetch; countsTokens: boolean },
): Promise<Exclude<LanguageModel, string>> {
  switch (provider) {
    case 'openai': {
      const { createOpenAI } = await import('@ai-sdk/openai')
      // Use chat completions: other servers at OPENAI_BASE_URL support them, and OpenAI does not store them by default.
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
      return createOpenAICompatible({
        name: provider,
        baseURL,
        fetch: guardedFetch,
        includeUsage: countsTokens,
        ...key,
      }).chatModel(modelId)
    }
  }
}

/** @throws if `accessTo` did not refuse a missing key: the SDK would read the environment. */
function needed(apiKey: string | undefined): string {
  if (apiKey === undefined) throw new Error('no key')
  return apiKey
}

/** The newest exchanges that fit, oldest first, without those that have an empty half: providers refuse them. */
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
