import { resolve } from 'node:path'
import type { ProviderKeys } from '../config/secrets.ts'
import type { Logger } from '../lib/logger.ts'
import { type AgentDefinition, countsTokens, modelFields, priceOf } from '../schema/agent.ts'
import { formatPrice } from '../schema/amount.ts'
import type { A2aAgent } from './a2a-agent.ts'
import type { AgentPurchases } from './agent-purchase.ts'
import { builtinRuntime } from './builtin/builtins.ts'
import { commandRuntime } from './command.ts'
import { withoutKeys } from './hidden-keys.ts'
import { httpRuntime } from './http-agent.ts'
import { instructionOf } from './instruction.ts'
import type { LlmModel, LlmParameters } from './llm.ts'
import { formatModelName, type LlmProvider, parseModelName } from './model-name.ts'
import { moduleRuntime } from './module-agent.ts'
import { checkProgram } from './program.ts'
import {
  accessTo,
  checkKeyVariable,
  checkTokenVariable,
  firstProvider,
  keyVariables,
  providerOfKeyVariable,
} from './providers.ts'
import { AgentError, type AgentRuntime, cannotRun, notRunnable, outputBytesMaxOf, timeoutMsOf } from './runtime.ts'
import { mcpToolRuntime, operationRuntime } from './services/service-runtime.ts'
import type { ToolServerAccess } from './toolbox.ts'
import { type AgentWorkers, workerRuntime } from './worker-agent.ts'

/** The built-in agent that replaces the model of a free agent without a model key. */
const STAND_IN = 'summarize'

export type RuntimeFactoryOptions = {
  providerKeys: ProviderKeys
  readKey(name: string): string | undefined
  /** Base of relative paths to modules and instruction files. */
  dataDir: string
  /** Load modules at registration, so that a broken module is known before a buyer calls it. */
  loadModules?: boolean
  /** False: this node takes no payment channels, so agents without a price of their own cannot be sold. */
  takesChannels?: boolean
}
export type RuntimeFactoryDeps = {
  fetch: typeof fetch
  logger: Logger
  /** Buys what an `a2a` agent needs. Undefined: such agents buy nothing. */
  agentPurchases?: AgentPurchases | undefined
  /** Run `worker` agents. Undefined: such agents cannot run. */
  workers?: AgentWorkers | undefined
}

/**
 * Creates the runtime for an agent's definition (D10). One that can never work throws AgentError 'AGENT_NOT_RUNNABLE'.
 * If only a key is missing, the `notice` tells the operator and `run` tells the buyer, because keys may change at a
 * restart.
 */
export function createRuntimeFactory(
  options: RuntimeFactoryOptions,
  deps: RuntimeFactoryDeps,
): (definition: AgentDefinition) => Promise<AgentRuntime> {
  return async (definition) => {
    const runtime = withoutKeys(
      await chooseRuntime(definition, options, deps),
      keysOf(definition, options),
      deps.logger.child({ agent_name: definition.name }),
    )
    // At the start no worker is connected yet.
    if (runtime.notice !== undefined && runtime.lacks !== 'worker')
      deps.logger.warn({ agent_name: definition.name, model: runtime.model }, runtime.notice)
    return runtime
  }
}

async function chooseRuntime(
  definition: AgentDefinition,
  options: RuntimeFactoryOptions,
  deps: RuntimeFactoryDeps,
): Promise<AgentRuntime> {
  const { command, http, module, a2a, worker, model: modelText, api_key_env: keyVariable } = definition
  if (definition.price === undefined && options.takesChannels === false) {
    const error = cannotRun('this agent is sold on payment channels only, and its seller takes none')
    const fix =
      'pricing without price needs payment channels: set seller.channels: auto in config.yaml, or give a price'
    return notRunnable('none', error, 'part', fix)
  }
  if (worker !== undefined) {
    refuseKey(keyVariable, 'this agent runs on workers: its entry on the worker names the key')
    const limits = { timeoutMs: timeoutMsOf(definition), outputBytesMax: outputBytesMaxOf(definition) }
    return workerRuntime({ name: definition.name, ...limits }, deps.workers)
  }
  if (a2a !== undefined) return a2aRuntime(definition, a2a, options, deps)
  const service = definition.mcp_tool ?? definition.operation
  if (service !== undefined) return serviceRuntime(definition, options, deps)
  if (http !== undefined) {
    const token = tokenOf('api_key_env', keyVariable, options)
    if (token instanceof AgentError) return notRunnable('http', token, 'key')
    return httpRuntime({ name: definition.name, url: http, token, outputBytesMax: outputBytesMaxOf(definition) }, deps)
  }
  if (module !== undefined) {
    refuseKey(keyVariable, 'a module reads the keys it needs itself')
    const agent = { name: definition.name, path: resolve(options.dataDir, module), load: options.loadModules === true }
    return moduleRuntime(agent, deps)
  }
  if (command !== undefined) {
    refuseKey(keyVariable, 'a command gets no keys from this node; let the program read its own')
    const problem = await checkProgram(command, options.readKey)
    if (problem !== undefined) return notRunnable('command', cannotStart('command'), 'part', `command: ${problem}`)
    const limits = { outputBytesMax: outputBytesMaxOf(definition) }
    return commandRuntime({ name: definition.name, command, readEnv: options.readKey, ...limits }, deps)
  }
  if (modelText !== undefined) {
    const model = parseModelName(modelText, { hasBaseUrl: options.providerKeys.openaiBaseUrl !== undefined })
    if (model.kind === 'llm') return llmRuntime(definition, model, options, deps)
    refuseKey(keyVariable, `${formatModelName(model)} needs no key`)
    refuseModelFields(definition, formatModelName(model))
    return builtinRuntime(model.name)
  }
  if (keyVariable !== undefined) {
    const model = providerOfKeyVariable(keyVariable)
    if (model !== undefined) return llmRuntime(definition, model, options, deps)
    refuseKey(keyVariable, 'it is not known whose key this is; give the model too, such as openai/<model>')
  }
  const model = firstProvider(options.providerKeys)
  if (model !== undefined) return llmRuntime(definition, model, options, deps)
  if (priceOf(definition) > 0n) return keyless()
  const runtime = standIn()
  refuseModelFields(definition, runtime.model)
  return runtime
}

/** The keys that an agent sends to its services. */
function keysOf({ api_key_env: variable, mcp = [] }: AgentDefinition, { readKey }: RuntimeFactoryOptions): string[] {
  return [variable, ...mcp.map(({ token_env }) => token_env)].flatMap((name) => (name && readKey(name)?.trim()) || [])
}

/** Only language models use these fields. An agent that ignored them would not be what its seller described. */
function refuseModelFields(definition: AgentDefinition, model: string): void {
  if (definition.mcp !== undefined) throw cannotRun(`mcp: ${model} uses no tools; give a language model`)
  const given = modelFields.find((name) => definition[name] !== undefined)
  if (given !== undefined) throw cannotRun(`${given}: ${model} is told nothing; give a language model`)
}

/** The message for buyers. The operator's notice names the program and where it was searched. */
function cannotStart(field: 'command' | 'mcp' | 'mcp_tool'): AgentError {
  const what = field === 'mcp' ? 'a tool server of the agent' : "the agent's program"
  return cannotRun(`${what} cannot be started: its seller must check \`${field}\``)
}

/** The A2A client loads with the first task. */
function a2aRuntime(
  definition: AgentDefinition,
  url: string,
  options: RuntimeFactoryOptions,
  deps: RuntimeFactoryDeps,
): AgentRuntime {
  const token = tokenOf('api_key_env', definition.api_key_env, options)
  if (token instanceof AgentError) return notRunnable('a2a', token, 'key')
  const { name, max_price: maxPrice } = definition
  const agent = { name, url, token, outputBytesMax: outputBytesMaxOf(definition), maxPrice }
  const notice = lossOf(definition)
  let loaded: Promise<A2aAgent> | undefined
  return {
    ...(notice !== undefined && { notice }),
    // Not the URL: it is private to the seller.
    model: 'a2a',
    async run(call) {
      loaded ??= import('./a2a-agent.ts').then(({ openA2aAgent }) => openA2aAgent(agent, deps))
      return (await loaded).run(call)
    },
  }
}

async function serviceRuntime(
  definition: AgentDefinition,
  options: RuntimeFactoryOptions,
  deps: RuntimeFactoryDeps,
): Promise<AgentRuntime> {
  const { name, mcp_tool: tool, operation, api_key_env: keyVariable } = definition
  if (tool?.command !== undefined) refuseKey(keyVariable, 'a program gets no keys from this node; let it read its own')
  const token = tokenOf('api_key_env', keyVariable, options)
  if (token instanceof AgentError) return notRunnable(tool === undefined ? 'operation' : 'mcp', token, 'key')
  const service = { name, token, outputBytesMax: outputBytesMaxOf(definition) }
  const serviceDeps = { ...deps, readEnv: options.readKey }
  if (operation !== undefined) return operationRuntime(operation, service, serviceDeps)
  const problem = tool?.command && (await checkProgram(tool.command, options.readKey))
  if (problem !== undefined) return notRunnable('mcp', cannotStart('mcp_tool'), 'part', `mcp_tool: command: ${problem}`)
  return mcpToolRuntime(tool!, service, serviceDeps)
}

/** Returns a warning if one run may cost more than it earns. */
function lossOf(definition: AgentDefinition): string | undefined {
  const { max_price: maxPrice = 0n } = definition
  const price = priceOf(definition)
  if (price >= maxPrice) return undefined
  const [earns, costs] = [price, maxPrice].map(formatPrice)
  return `it may sell at a loss: a run earns ${earns} USDC and may pay ${costs} for the agent behind it. Raise price, or lower max_price.`
}

/** The token for a server of the operator, from the variable that the entry names. @returns AgentError if missing */
function tokenOf(field: string, variable: string | undefined, options: RuntimeFactoryOptions) {
  if (variable === undefined) return undefined
  checkTokenVariable(field, variable)
  const token = options.readKey(variable)?.trim()
  if (token !== undefined && /^[\x21-\x7e]+$/.test(token)) return token
  return cannotRun(`a token of this agent is missing: its seller must set ${variable}`)
}

function refuseKey(variable: string | undefined, reason: string): void {
  if (variable !== undefined) throw cannotRun(`api_key_env: ${variable}: ${reason}`)
}

async function llmRuntime(
  definition: AgentDefinition,
  { provider, modelId }: { provider: LlmProvider; modelId: string },
  options: RuntimeFactoryOptions,
  deps: RuntimeFactoryDeps,
): Promise<AgentRuntime> {
  const model = formatModelName({ kind: 'llm', provider, modelId })
  const keyVariable = definition.api_key_env
  if (keyVariable !== undefined) checkKeyVariable(keyVariable, provider)
  let access: ReturnType<typeof accessTo>
  try {
    access = accessTo(provider, keyVariable, keysFor(definition, options), options.readKey)
  } catch (error) {
    if (!(error instanceof AgentError)) throw error
    const way = keyVariable === undefined ? ` (stoa init --provider ${provider} asks for it)` : ''
    return notRunnable(model, error, 'key', `${error.message}${way}`)
  }
  const toolServers: ToolServerAccess[] = []
  for (const server of definition.mcp ?? []) {
    const token = tokenOf('mcp: token_env', server.token_env, options)
    if (token instanceof AgentError) return notRunnable(model, token, 'key')
    const problem = server.command && (await checkProgram(server.command, options.readKey))
    if (problem !== undefined) return notRunnable(model, cannotStart('mcp'), 'part', `mcp: command: ${problem}`)
    toolServers.push({ ...server, token })
  }
  const told = await instructionOf(definition, options.dataDir)
  if ('problem' in told) {
    const error = cannotRun("the agent's instructions cannot be read: its seller must check them")
    return notRunnable(model, error, 'part', `instructions_file: ${told.problem}`)
  }
  const agent = {
    name: definition.name,
    instruction: told.instruction,
    parameters: parametersOf(definition),
    outputBytesMax: outputBytesMaxOf(definition),
    toolServers,
    countsTokens: countsTokens(definition),
  }
  const modelDeps = { ...deps, readEnv: options.readKey }
  let loaded: Promise<LlmModel> | undefined
  return {
    model,
    readsHistory: true,
    async run(call) {
      // The AI SDK is large, so it loads with the first task.
      loaded ??= import('./llm.ts').then(({ openModel }) =>
        openModel({ provider, modelId, access, ...agent }, modelDeps),
      )
      return (await loaded).run(call)
    },
  }
}

/** A server of this agent's own gets no key that is meant for another one. */
function keysFor({ model_url: url }: AgentDefinition, { providerKeys }: RuntimeFactoryOptions): ProviderKeys {
  return url === undefined ? providerKeys : { openaiBaseUrl: url }
}

/** D10: without a key, a free agent runs on a built-in agent and says so. */
function standIn(): AgentRuntime {
  const runtime = builtinRuntime(STAND_IN)
  const notice = `no model key is set: this free agent runs on ${runtime.model}. Set one of ${keyVariables.join(', ')}, or choose a model.`
  return { ...runtime, notice }
}

/** D10: a paid agent does not run on a stand-in. */
function keyless(): AgentRuntime {
  const fix = `its seller must name a model (openai-compatible/…, ollama/…, builtin/…) or a command, or set one of ${keyVariables.join(', ')}`
  return notRunnable('none', cannotRun(`this agent has no model it can run on: ${fix}`), 'key')
}

function parametersOf({ temperature, max_output_tokens: maxOutputTokens, reasoning }: AgentDefinition): LlmParameters {
  return {
    ...(temperature !== undefined && { temperature }),
    ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    ...(reasoning !== undefined && { reasoning }),
  }
}
