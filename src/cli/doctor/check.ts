import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import type { Finding } from '../../lib/finding.ts'
import type { AgentDefinition } from '../../schema/agent.ts'
import type { Diagnosis } from '../../schema/diagnosis.ts'
import type { RunningNode } from '../node-access/running-node.ts'
import type { Parts } from '../parts.ts'

/** What a check looks at. */
export type Patient = {
  config: Config
  secrets: Secrets
  parts: Parts
  running: RunningNode | undefined
  /** What the running node says of itself: it knows its settings, which this shell may not have. */
  diagnosis: Diagnosis | undefined
  /** Of agents.yaml; empty where that cannot be read, which is a finding of its own. */
  agents: readonly AgentDefinition[]
}

export type Check = {
  id: string
  title: string
  run(patient: Patient, signal: AbortSignal): Promise<Finding | Finding[]>
}
