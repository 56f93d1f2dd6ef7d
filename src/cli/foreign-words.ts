/** Commands of the original node of this protocol that have other names here. */
export const foreignCommands: Readonly<Record<string, string>> = {
  node: 'stoa start',
  onboard: 'stoa init',
  'agent serve': 'stoa start --name … --description … --price …',
  'agent config delete': 'stoa agent config remove …',
  'agent config edit': 'stoa agent update …, or stoa agent config add',
  'workflow status': 'stoa workflow show <id>',
  discover: 'stoa agent discover',
  execute: 'stoa agent execute',
  register: 'stoa agent register',
  serve: 'stoa start',
  balance: 'stoa wallet',
  dashboard: 'stoa start, which prints the URL of the dashboard',
}
const WORDS_MAX = 3
/** Flags of the original node, and what replaces them here. */
export const foreignFlags: Readonly<Record<string, string>> = {
  '--announce-interval': 'the node announces listings automatically',
  '--provider': 'write the provider before the model, as in --model openai/gpt-5',
  '--api-key': 'keys come from files: stoa init --provider google --model-key-file <path>',
  '--openai-api-key': 'keys come from files: stoa init --provider openai --model-key-file <path>',
  '--openai-base-url': 'stoa init --provider openai-compatible --model-url <url>',
  '--on-chain': 'use stoa agent register-onchain to mint an identity; agents with an identity show their reputation',
  '--id': 'give the id without a flag',
}

/** Returns our command for a command that only the original node has. Undefined for all other words. */
export function ourWordsFor(argv: readonly string[], ours: ReadonlySet<string>): string | undefined {
  const end = argv.findIndex((word) => word.startsWith('-'))
  const words = argv.slice(0, Math.min(WORDS_MAX, end < 0 ? argv.length : end))
  for (let count = words.length; count > 0; count--) {
    const name = words.slice(0, count).join(' ')
    if (ours.has(name)) return undefined
    if (Object.hasOwn(foreignCommands, name)) return `there is no "stoa ${name}": use ${foreignCommands[name]}`
  }
  return undefined
}

/** Returns our replacement for a flag that only the original node has. Undefined for all other flags. */
export function ourFlagFor(flag: string): string | undefined {
  // Drop the value after `=`, which may be a key.
  const name = flag.split('=')[0]!
  return Object.hasOwn(foreignFlags, name) ? `unknown option '${name}': ${foreignFlags[name]}` : undefined
}
