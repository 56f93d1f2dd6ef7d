import { AgentError, type AgentRuntime, cannotRun } from '../runtime.ts'
import { builtins, isBuiltin } from './builtin-table.ts'
import { BuiltinThreads } from './builtin-threads.ts'

/** A shorter task ends before a thread could start, so it runs in the main thread. */
const SHORT_BYTES = 4 * 1024

const threads = new BuiltinThreads()

/** All built-in agents, the most useful first. */
export const builtinAgents: readonly { model: string; description: string }[] = Object.entries(builtins).map(
  ([name, { description }]) => ({ model: `builtin/${name}`, description }),
)

/** Long tasks run in a thread. @throws AgentError 'AGENT_NOT_RUNNABLE' that lists the built-in agents */
export function builtinRuntime(name: string): AgentRuntime {
  if (!isBuiltin(name)) {
    const known = builtinAgents.map(({ model }) => model).join(', ')
    throw cannotRun(`there is no builtin/${name.slice(0, 40)}: choose one of ${known}`)
  }
  const { taskBytesMax } = builtins[name]
  return {
    model: `builtin/${name}`,
    async run({ input, signal }) {
      const bytes = Buffer.byteLength(input)
      if (bytes > taskBytesMax)
        throw new AgentError('AGENT_FAILED', `the task is larger than ${taskBytesMax} bytes: send it in parts`)
      // An echo takes no time, even for long tasks.
      if (bytes > SHORT_BYTES && name !== 'echo') return threads.run({ name, input }, signal)
      return (await builtins[name].load())(input, signal)
    },
  }
}
