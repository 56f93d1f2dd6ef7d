import { pathToFileURL } from 'node:url'
import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { within } from '../lib/wait.ts'
import { type AgentFunction, functionRuntime } from './function-agent.ts'
import { isFile } from './program.ts'
import { type AgentError, type AgentRuntime, cannotRun, notRunnable } from './runtime.ts'

/** How long a module may take to load at registration. */
const LOAD_MS_MAX = 5000

type ModuleOptions = {
  name: string
  /** Absolute path. */
  path: string
  load?: boolean
}

/**
 * An agent that is a module of the operator. Its default export is called with each task, in the node's own process. It
 * loads with the first task, or now if `load` is set, so that a broken module is known before a buyer calls it. A
 * module that fails to load later is tried again with the next task.
 */
export async function moduleRuntime(
  { name, path, load: isLoaded = false }: ModuleOptions,
  deps: { logger: Logger },
): Promise<AgentRuntime> {
  if (!(await isFile(path))) return notRunnable('module', unusable(), 'part', `module: there is no file ${path}`)
  let loaded: Promise<AgentRuntime> | undefined
  if (isLoaded) {
    loaded = load(path)
    const problem = await withinLimit(loaded)
    if (problem !== undefined) return notRunnable('module', unusable(), 'part', `module: ${problem}`)
  }
  return {
    // Not the file: its name is private to the seller.
    model: 'module',
    readsHistory: true,
    async run(call) {
      loaded ??= load(path)
      try {
        return await (await loaded).run(call)
      } catch (error) {
        if (!(error instanceof ModuleUnusable)) throw error
        loaded = undefined
        deps.logger.error({ agent_name: name, err: error }, 'the module behind an agent cannot be used')
        throw unusable()
      }
    },
  }
}

/** @returns why the module did not load, or undefined */
async function withinLimit(loading: Promise<unknown>): Promise<string | undefined> {
  try {
    return (await within(LOAD_MS_MAX, loading)) ? undefined : `it did not load within ${LOAD_MS_MAX / 1000} s`
  } catch (error) {
    return reasonOf(error)
  }
}

function unusable(): AgentError {
  return cannotRun('the module behind this agent cannot be loaded')
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
