import { existsSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { type AgentFunction, functionRuntime } from './function-agent.ts'
import { AgentError, type AgentRuntime } from './runtime.ts'

/**
 * An agent that is a module of the operator's: its default export is called with each task, in the node's own process.
 *
 * It loads with the first task. One that cannot be loaded is tried again with the next.
 *
 * @param path absolute
 */
export function moduleRuntime({ name, path }: { name: string; path: string }, deps: { logger: Logger }): AgentRuntime {
  let loaded: Promise<AgentRuntime> | undefined
  return {
    // Not the file: its name is the seller's business.
    model: 'module',
    ...(existsSync(path) ? {} : { notice: `module: there is no file ${path}` }),
    async run(call) {
      loaded ??= load(path)
      try {
        return await (await loaded).run(call)
      } catch (error) {
        if (!(error instanceof ModuleUnusable)) throw error
        loaded = undefined
        deps.logger.error({ agent: name, reason: error.message }, 'the module behind an agent cannot be used')
        throw new AgentError('AGENT_NOT_RUNNABLE', 'the module behind this agent cannot be loaded')
      }
    },
  }
}

class ModuleUnusable extends Error {}

async function load(path: string): Promise<AgentRuntime> {
  const module = await import(pathToFileURL(path).href).catch((error: unknown) => {
    throw new ModuleUnusable(reasonOf(error))
  })
  const run = (module as { default?: unknown }).default
  if (typeof run !== 'function') throw new ModuleUnusable(`${path} has no function as its default export`)
  return functionRuntime(run as AgentFunction, 'module')
}
