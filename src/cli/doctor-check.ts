import type { Config } from '../config/config.ts'
import type { Secrets } from '../config/secrets.ts'
import { reasonOf } from '../lib/errors.ts'
import type { AgentDefinition } from '../schema/agent.ts'
import type { Parts } from './parts.ts'
import type { RunningNode } from './running-node.ts'

/** What a check looks at. */
export type Patient = {
  config: Config
  secrets: Secrets
  parts: Parts
  running: RunningNode | undefined
  /** Of agents.yaml; empty where that cannot be read, which is a finding of its own. */
  agents: readonly AgentDefinition[]
}

/** What a check found. `skip`: it could not be told, for a reason that is no fault here or has its own finding. */
export type Finding = { state: 'ok' | 'warn' | 'fail' | 'skip'; text: string; fix?: string }

export type Check = {
  id: string
  title: string
  run(patient: Patient, signal: AbortSignal): Promise<Finding | Finding[]>
}

export const ok = (text: string): Finding => ({ state: 'ok', text })
export const skip = (text: string): Finding => ({ state: 'skip', text })
export const warn = (text: string, fix: string): Finding => ({ state: 'warn', text, fix })
export const fail = (text: string, fix: string): Finding => ({ state: 'fail', text, fix })

/** Runs one check within its time. Never throws: what goes wrong is its finding. */
export async function runCheck(check: Check, patient: Patient, limitMs: number, stop: AbortSignal): Promise<Finding[]> {
  const limit = AbortSignal.timeout(limitMs)
  const { promise: late, resolve } = Promise.withResolvers<Finding>()
  const slow = fail(
    `no answer within ${limitMs / 1000} s`,
    'see that the machine has network and is not overloaded, then look again',
  )
  const onLimit = () => resolve(slow)
  limit.addEventListener('abort', onLimit, { once: true })
  stop.addEventListener('abort', onLimit, { once: true })
  try {
    const found = check.run(patient, AbortSignal.any([limit, stop]))
    return [await Promise.race([found, late])].flat()
  } catch (error) {
    return [limit.aborted ? slow : { state: 'fail', text: reasonOf(error) }]
  } finally {
    stop.removeEventListener('abort', onLimit)
  }
}
