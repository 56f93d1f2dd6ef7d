import { createHash } from 'node:crypto'
import type { Hex } from '../../schema/primitives.ts'
import type { FramedStream } from '../framed-stream.ts'
import type { Exchange, PaidResult, ServedAgent, WrappedRun, X402ServerDeps } from './exchange.ts'
import { type PaidTask, runPaid } from './sale.ts'

/**
 * Runs a paid task for a buyer that wraps it, as the original node does, and remembers the run for this buyer. Such a
 * buyer waits for half a minute, ends its side, and cannot ask for what it paid for. When it sends the same task again,
 * it gets that result and is not charged again. A run that failed after its settlement is run again (D45).
 */
export async function runWrapped(
  agent: ServedAgent,
  task: PaidTask,
  exchange: Exchange,
  deps: X402ServerDeps,
): Promise<PaidResult & { id: Hex }> {
  const { wrappedRuns, deferred, payments, logger } = deps
  const { peerId, stream, correlationId } = exchange
  const key = keyOf({ peerId, agentId: agent.id, task: task.input })
  let begun: WrappedRun | undefined
  const keepFor = (id: Hex) =>
    deferred.unheard(id).catch((err: unknown) => {
      const ids = { payment_id: id, correlation_id: correlationId }
      logger.error({ ...ids, err }, 'could not store that a buyer may come back for its result')
    })
  try {
    const onClaimed = ({ id }: { id: Hex }) => {
      begun = { id, stream }
      wrappedRuns.set(key, begun)
    }
    const paid = await runPaid(agent, { ...task, onClaimed }, exchange, deps)
    if ((begun?.stream ?? stream).ended) await keepFor(paid.id)
    return paid
  } catch (error) {
    // If the ledger cannot be read, nothing can be kept either.
    const payment = begun && (await payments.get(begun.id).catch(() => undefined))
    if (payment?.state === 'settled') await keepFor(payment.id)
    throw error
  } finally {
    if (wrappedRuns.get(key) === begun) wrappedRuns.delete(key)
  }
}

/** The payment for the same task of a peer that left before its result. The run now waits on `stream`. */
export async function unheardOf(
  sought: { peerId: string; agentId: string; task: string },
  stream: FramedStream,
  { wrappedRuns, deferred }: Pick<X402ServerDeps, 'wrappedRuns' | 'deferred'>,
): Promise<Hex | undefined> {
  const run = wrappedRuns.get(keyOf(sought))
  if (run?.stream.ended !== true) return deferred.findUnheard(sought)
  run.stream = stream
  return run.id
}

function keyOf({ peerId, agentId, task }: { peerId: string; agentId: string; task: string }): string {
  return createHash('sha256').update(`${peerId}\n${agentId}\n${task}`).digest('base64')
}
