/** Needs no key, network or download. Throws when `signal` has aborted, and AgentError if the task is invalid. */
type Builtin = (input: string, signal: AbortSignal) => string | Promise<string>

type BuiltinEntry = {
  description: string
  /** Largest task, in bytes of UTF-8. */
  taskBytesMax: number
  load(): Promise<Builtin>
}

const MIB = 1024 * 1024

export const builtins = {
  summarize: {
    description: 'The most telling sentences of a text in any language, in their order.',
    taskBytesMax: MIB,
    load: async () => (await import('./summarize.ts')).summarize,
  },
  'word-count': {
    description: 'Characters, words, sentences, reading time and most frequent words of a text, as JSON.',
    taskBytesMax: 4 * MIB,
    load: async () => (await import('./word-count.ts')).wordCount,
  },
  'json-query': {
    description:
      'A path such as .items[].name in the first line, JSON after it: the values the path leads to, one a line.',
    taskBytesMax: 2 * MIB,
    load: async () => (await import('./json-query.ts')).jsonQuery,
  },
  echo: {
    description: 'The task itself, unchanged.',
    taskBytesMax: 4 * MIB,
    load: async () => (input) => input,
  },
} satisfies Record<string, BuiltinEntry>

export type BuiltinName = keyof typeof builtins

export function isBuiltin(name: string): name is BuiltinName {
  return Object.hasOwn(builtins, name)
}
