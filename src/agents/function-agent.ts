import { type AgentDefinition, ownRuns, runsOwn } from '../schema/agent.ts'
import { type AgentCall, type AgentRuntime, cannotRun } from './runtime.ts'

/**
 * An agent that is a function of the embedding program. If it throws, the buyer sees no details and is not charged. It
 * should stop soon after `call.signal` aborts.
 */
export type AgentFunction = (task: string, call: Omit<AgentCall, 'input'>) => string | Promise<string>

/** The functions of agents, by agent name. They last as long as the process. */
export interface FunctionAgents {
  has(name: string): boolean
  runtimeOf(definition: AgentDefinition): AgentRuntime | undefined
  /**
   * Registers an agent with its function; without `run`, removes the function. If that fails, nothing changes.
   * @throws AgentError 'AGENT_NOT_RUNNABLE' if the definition also says what to run; any error of `register`
   */
  register<T>(definition: AgentDefinition, run: AgentFunction | undefined, register: () => Promise<T>): Promise<T>
}

export function createFunctionAgents(): FunctionAgents {
  const functions = new Map<string, AgentFunction>()
  const set = (name: string, run: AgentFunction | undefined) =>
    run === undefined ? functions.delete(name) : functions.set(name, run)
  return {
    has: (name) => functions.has(name),
    runtimeOf({ name }) {
      const run = functions.get(name)
      return run === undefined ? undefined : functionRuntime(run)
    },
    async register(definition, run, register) {
      const { name } = definition
      if (run !== undefined && (definition.model !== undefined || runsOwn(definition))) {
        throw cannotRun(`give the agent a function, or ${['model', ...ownRuns].join(', ')}, not both`)
      }
      const before = functions.get(name)
      set(name, run)
      try {
        return await register()
      } catch (error) {
        set(name, before)
        throw error
      }
    },
  }
}

/** @param model as the listing shows it */
export function functionRuntime(run: AgentFunction, model = 'function'): AgentRuntime {
  return {
    model,
    readsHistory: true,
    async run({ input, ...call }) {
      const result: unknown = await run(input, call)
      if (typeof result === 'string') return result
      throw new TypeError(`the function of an agent gave ${typeof result}, not text`)
    },
  }
}
