import { AgentError, type AgentRuntime } from '../runtime.ts'

/**
 * An agent that needs no key, no network and no download.
 *
 * It may be given megabytes: it gives way to the rest of the node now and then, and throws when `signal` has aborted.
 */
export type Builtin = (input: string, signal: AbortSignal) => string | Promise<string>

type BuiltinEntry = { description: string; load(): Promise<Builtin> }

const builtins = {
  summarize: {
    description: 'The most telling sentences of a text in any language, in their order.',
    load: async () => (await import('./summarize.ts')).summarize,
  },
  'word-count': {
    description: 'Characters, words, sentences, reading time and most frequent words of a text, as JSON.',
    load: async () => (await import('./word-count.ts')).wordCount,
  },
  'json-query': {
    description:
      'A path such as .items[].name in the first line, JSON after it: the values the path leads to, one a line.',
    load: async () => (await import('./json-query.ts')).jsonQuery,
  },
  echo: {
    description: 'The task itself, unchanged.',
    load: async () => (input) => input,
  },
} satisfies Record<string, BuiltinEntry>

/** Every built-in agent, the most useful first. */
export const builtinAgents: readonly { model: string; description: string }[] = Object.entries(builtins).map(
  ([name, { description }]) => ({ model: `builtin/${name}`, description }),
)

/** @throws AgentError 'AGENT_NOT_RUNNABLE' that lists the built-in agents there are. */
export function builtinRuntime(name: string): AgentRuntime {
  if (!isBuiltin(name)) {
    const known = builtinAgents.map(({ model }) => model).join(', ')
    throw new AgentError('AGENT_NOT_RUNNABLE', `there is no builtin/${name.slice(0, 40)}: choose one of ${known}`)
  }
  return {
    model: `builtin/${name}`,
    async run({ input, signal }) {
      const run: Builtin = await builtins[name].load()
      return run(input, signal)
    },
  }
}

function isBuiltin(name: string): name is keyof typeof builtins {
  return Object.hasOwn(builtins, name)
}
