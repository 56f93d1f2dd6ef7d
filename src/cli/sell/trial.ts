import { createRuntimeFactory } from '../../agents/create-runtime.ts'
import { hostAgent } from '../../agents/hosted-agent.ts'
import type { Secrets } from '../../config/secrets.ts'
import { reasonOf } from '../../lib/errors.ts'
import type { Logger } from '../../lib/logger.ts'
import type { AgentDefinition } from '../../schema/agent.ts'
import { printableLine } from '../text/terminal-text.ts'

export type Trial =
  | { state: 'done'; task: string; output: string; ms: number }
  | { state: 'failed'; task: string; problem: string }
  | { state: 'skipped'; problem: string }

type TrialDeps = {
  fetch: typeof fetch
  secrets: Pick<Secrets, 'providerKeys' | 'env'>
  dataDir: string
  signal: AbortSignal
}

/** Runs one task as the node would run it, unpaid. What the service says of a failure is told too: it is the seller's own. */
export async function tryOut(definition: AgentDefinition, task: string, deps: TrialDeps): Promise<Trial> {
  const said: string[] = []
  const keep = (fields: object) => {
    const { reason, status, err } = fields as { reason?: string; status?: number; err?: unknown }
    if (reason !== undefined) said.push(reason)
    else if (status !== undefined) said.push(`HTTP ${status}`)
    else if (err !== undefined) said.push(reasonOf(err))
  }
  const logger: Logger = { debug: () => {}, info: () => {}, warn: keep, error: keep, child: () => logger }
  const { secrets, dataDir, fetch, signal } = deps
  const options = { providerKeys: secrets.providerKeys, readKey: (name: string) => secrets.env(name), dataDir }
  const since = performance.now()
  try {
    const runtime = await createRuntimeFactory(options, { fetch, logger })(definition)
    const output = await hostAgent('', definition, runtime).run({ input: task, callerId: 'local', history: [], signal })
    return { state: 'done', task, output, ms: Math.round(performance.now() - since) }
  } catch (error) {
    signal.throwIfAborted()
    const reasons = [...new Set([reasonOf(error), ...said])].map((text) => printableLine(text, 300))
    return { state: 'failed', task, problem: reasons.join(': ') }
  }
}
