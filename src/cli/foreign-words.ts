/** Commands of the original node of this protocol that are called otherwise here. */
const foreign: Readonly<Record<string, string>> = {
  node: 'stoa start',
  onboard: 'stoa init',
  'agent serve': 'stoa start --name … --description … --price …',
  'agent config delete': 'stoa agent config remove --name …',
  'agent config edit': 'stoa agent update …, or stoa agent config add',
  'workflow status': 'stoa workflow show <id>',
  discover: 'stoa agent discover',
  execute: 'stoa agent execute',
  register: 'stoa agent register',
  serve: 'stoa start',
  balance: 'stoa wallet',
  dashboard: 'stoa start, which says where the dashboard is',
}
const WORDS_MAX = 3

/** What to type instead of words that only the original node knows; undefined for ours, and for any other. */
export function ourWordsFor(argv: readonly string[], ours: ReadonlySet<string>): string | undefined {
  const end = argv.findIndex((word) => word.startsWith('-'))
  const words = argv.slice(0, Math.min(WORDS_MAX, end < 0 ? argv.length : end))
  for (let count = words.length; count > 0; count--) {
    const name = words.slice(0, count).join(' ')
    if (ours.has(name)) return undefined
    if (Object.hasOwn(foreign, name)) return `there is no "stoa ${name}": it is ${foreign[name]}`
  }
  return undefined
}
