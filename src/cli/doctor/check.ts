import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import type { Finding } from '../../lib/finding.ts'
import type { AgentDefinition } from '../../schema/agent.ts'
import type { Diagnosis } from '../../schema/diagnosis.ts'
import type { NodeFile } from '../../store/node-file.ts'
import type { RunningNode } from '../node-access/running-node.ts'
import type { Parts } from '../parts.ts'

export type Patient = {
  config: Config
  secrets: Secrets
  parts: Parts
  running: RunningNode | undefined
  /** A node that holds the directory and does not answer. */
  silent: NodeFile | undefined
  /** The running node's own diagnosis. The node knows its settings, which this shell may not have. */
  diagnosis: Diagnosis | undefined
  /** The agents of agents.yaml. Empty if the file cannot be read, which is a finding of its own. */
  agents: readonly AgentDefinition[]
}

export type Check = {
  id: string
  title: string
  run(patient: Patient, signal: AbortSignal): Promise<Finding | Finding[]>
}
