import { asExecutionFailed, type Caller, runCall, type ServedAgent, type X402ServerDeps } from './exchange.ts'

/** Runs a task of a free agent and stores the outcome for the caller's session. @throws PeerError */
export async function runFree(
  agent: ServedAgent,
  input: string,
  caller: Omit<Caller, 'peerId'>,
  deps: Pick<X402ServerDeps, 'clock' | 'exchanges'> & { inSlot<T>(caller: string, work: () => Promise<T>): Promise<T> },
): Promise<string> {
  const createdAt = deps.clock.now()
  const { callerDid: callerId, correlationId, onOutput } = caller
  const run = { id: correlationId, isPaid: false }
  const call = { ...runCall(caller, input, run), ...(onOutput && { onOutput }) }
  const output = await deps.inSlot(callerId, () => agent.run(call)).catch(asExecutionFailed)
  const durationMs = deps.clock.now() - createdAt
  await deps.exchanges.record({ agentId: agent.id, callerId, correlationId, input, output, createdAt, durationMs })
  return output
}
