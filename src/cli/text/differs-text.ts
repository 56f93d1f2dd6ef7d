import { printableLine } from './terminal-text.ts'

const PLACES_SHOWN = 5

/** Other processes of the seller still have other settings for an agent. Says which, and what to do. */
export function differsText(name: string, places: readonly string[] | undefined): string | undefined {
  if (places === undefined || places.length === 0) return undefined
  const shown = places.slice(0, PLACES_SHOWN).join('; ') + (places.length > PLACES_SHOWN ? ' and more' : '')
  const what = `${name}: this process only. Others have other settings, or do not have it: ${shown}.`
  return printableLine(`${what} Run the same command there, or copy agents.yaml and run stoa agent reload there`, 600)
}
