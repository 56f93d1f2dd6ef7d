import { constants, setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { AgentError } from '../runtime.ts'
import { builtins } from './builtin-table.ts'
import type { BuiltinAnswer, BuiltinTask } from './builtin-threads.ts'

/** A thread that runs one task after the other. Canceling a task terminates the thread, so this signal never aborts. */
const signal = new AbortController().signal

// Linux has a priority per thread. Built-in agents run below the node itself.
if (process.platform === 'linux') setPriority(constants.priority.PRIORITY_BELOW_NORMAL)

parentPort?.on('message', async ({ name, input }: BuiltinTask) => {
  parentPort?.postMessage(await answer(name, input))
})

async function answer(name: BuiltinTask['name'], input: string): Promise<BuiltinAnswer> {
  try {
    const run = await builtins[name].load()
    return { output: await run(input, signal) }
  } catch (error) {
    return { failure: error instanceof AgentError ? error.message : undefined }
  }
}
