import type { AgentDefinition } from '../../schema/agent.ts'

export const serviceKinds = ['a2a', 'openapi', 'mcp', 'openai', 'http'] as const
export type ServiceKind = (typeof serviceKinds)[number]

/** One agent that can be made of a service. */
export type Offer = {
  /** How flags name it: a tool, an operation or a model. */
  key: string
  name: string
  description: string
  tags: string[]
  /** What runs it, as in agents.yaml. */
  runs: Partial<AgentDefinition>
  /** False: a run may change something, or nobody says that it does not. */
  isReadOnly: boolean
  /** A task from the examples of the service. */
  sample: string | undefined
  /** True if it answers only with a key. */
  needsKey: boolean
}

/** What was found behind an address, a file or a program. Texts of the service are safe to print. */
export type Service = {
  kind: ServiceKind
  /** What it is, in a line. */
  what: string
  /** What the seller should know before it sells. */
  notes: string[]
  offers: Offer[]
  /** What cannot be sold, and why. */
  unsold: { key: string; problem: string }[]
  /** Where an OpenAPI document sends calls, if that needs the seller's word. */
  server?: string | undefined
}

export type Target = { url: URL } | { file: string } | { program: readonly string[] }
