import { createHash } from 'node:crypto'
import type { LedgerProcess } from '../store/postgres/processes.ts'

const HASH_LENGTH = 12
/** A process that has just started may not have told all of its agents yet. */
export const STARTING_MS = 15_000
const NAMES_SHOWN = 5

/** What a process is configured with, as its report says. A process of another version may say less. */
type Configured = {
  definitions?: Readonly<Record<string, string>> | undefined
  budget?: string | undefined
}

/** What processes of one seller have configured in different ways. */
export type Differences = {
  /** Names of agents that two processes have with different settings, or that one of them lacks. */
  agents: string[]
  budget: boolean
  /** Changes when something is configured in yet another way. */
  mark: string
}

/** A hash of settings that does not depend on the order of their fields. */
export function hashOf(settings: unknown): string {
  return createHash('sha256').update(textOf(settings)).digest('base64url').slice(0, HASH_LENGTH)
}

function textOf(settings: unknown): string {
  return JSON.stringify(settings, (_, value: unknown) => {
    if (typeof value === 'bigint') return value.toString()
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
  })
}

/** What these processes have configured in different ways. Undefined: no difference is known. */
export function differencesOf(processes: readonly (Configured | undefined)[]): Differences | undefined {
  const definitions = processes.flatMap((one) => (one?.definitions === undefined ? [] : [one.definitions]))
  const names = new Set(definitions.flatMap((known) => Object.keys(known)))
  const versions = [...names]
    .sort()
    .map((name) => [name, valuesOf(definitions.map((known) => known[name] ?? ''))] as const)
  const agents = versions.filter(([, values]) => values.length > 1)
  const budgets = valuesOf(processes.flatMap((one) => one?.budget ?? []))
  if (agents.length === 0 && budgets.length < 2) return undefined
  const mark = hashOf([agents, budgets.length > 1 && budgets])
  return { agents: agents.map(([name]) => name), budget: budgets.length > 1, mark }
}

/** Compares the processes that neither start nor stop. */
export function differencesAmong(alive: readonly LedgerProcess[]): Differences | undefined {
  return differencesOf(
    alive.map(({ upMs, report }) => (upMs < STARTING_MS || report?.isDraining === true ? undefined : report)),
  )
}

/** `Echo, More`. */
export function namesText(names: readonly string[]): string {
  return names.slice(0, NAMES_SHOWN).join(', ') + (names.length > NAMES_SHOWN ? ' and more' : '')
}

/** How the agents of another process differ: `Echo (other settings), More (only there)`. */
export function agentsText(names: readonly string[], there: Configured, here: Configured): string {
  const how = (name: string) => {
    if (here.definitions?.[name] === undefined) return 'only there'
    return there.definitions?.[name] === undefined ? 'not there' : 'other settings'
  }
  return namesText(names.map((name) => `${name} (${how(name)})`))
}

function valuesOf(values: readonly string[]): string[] {
  return [...new Set(values)].sort()
}
