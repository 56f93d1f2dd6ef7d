import { PeerError } from '../peer-error.ts'
import { admit } from './admit.ts'
import {
  asExecutionFailed,
  buyerReason,
  type Caller,
  mayRunElsewhere,
  runCall,
  type ServedAgent,
  type X402ServerDeps,
} from './exchange.ts'

/** Runs a task of a free agent and stores the outcome for the caller's session. @throws PeerError */
export async function runFree(
  agent: ServedAgent,
  input: string,
  caller: Omit<Caller, 'peerId'>,
  deps: Pick<X402ServerDeps, 'clock' | 'exchanges' | 'slots'>,
): Promise<string> {
  const createdAt = deps.clock.now()
  const { callerDid: callerId, correlationId, onOutput } = caller
  const call = { ...runCall(caller, input, { id: correlationId, isPaid: false }), ...(onOutput && { onOutput }) }
  using slot = admit(callerId, deps, { isFree: true })
  await slot.turn(agent.id)
  const output = await (async () => agent.run(call))().catch((failure: unknown) => {
    if (caller.mayMove !== true || !mayRunElsewhere(agent, failure)) return asExecutionFailed(failure)
    throw new PeerError('OVERLOADED', `${buyerReason(failure)}: call another process of this seller`)
  })
  slot.leave()
  const durationMs = deps.clock.now() - createdAt
  await deps.exchanges.record({ agentId: agent.id, callerId, correlationId, input, output, createdAt, durationMs })
  return output
}
