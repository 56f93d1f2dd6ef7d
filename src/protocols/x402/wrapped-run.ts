import { createHash } from 'node:crypto'
import type { Hex } from '../../schema/primitives.ts'
import type { FramedStream } from '../framed-stream.ts'
import type { Exchange, WrappedRun, X402ServerDeps } from './exchange.ts'

type Deps = Pick<X402ServerDeps, 'wrappedRuns' | 'deferred' | 'payments' | 'logger'>
export type OnClaimed = (payment: { id: Hex }) => void

/**
 * Runs a paid task. If the buyer wraps it, as the original node does, the run is remembered for this buyer.
 *
 * Such a buyer waits for half a minute, then ends its side. It has no way to ask for what it paid for. When it sends
 * the same task again, it gets that result and is not charged again. If the payment was settled before the run and the
 * run failed, the task is run again (D45).
 */
export async function runWrapped<T extends { id: Hex }>(
  { agentId, input }: { agentId: string; input: string },
  { isWrapped, peerId, stream, correlationId }: Exchange,
  { wrappedRuns, deferred, payments, logger }: Deps,
  run: (onClaimed: OnClaimed) => Promise<T>,
): Promise<T> {
  if (isWrapped !== true) return run(() => {})
  const key = keyOf({ peerId, agentId, task: input })
  let begun: WrappedRun | undefined
  const keepFor = (id: Hex) =>
    deferred.unheard(id).catch((err: unknown) => {
      const ids = { payment_id: id, correlation_id: correlationId }
      logger.error({ ...ids, err }, 'could not note whose buyer cannot ask for its result')
    })
  try {
    const paid = await run(({ id }) => {
      begun = { id, stream }
      wrappedRuns.set(key, begun)
    })
    if ((begun?.stream ?? stream).ended) await keepFor(paid.id)
    return paid
  } catch (error) {
    const payment = begun && payments.get(begun.id)
    if (payment?.state === 'settled') await keepFor(payment.id)
    throw error
  } finally {
    if (wrappedRuns.get(key) === begun) wrappedRuns.delete(key)
  }
}

/**
 * The payment of this peer for the same task, if the peer left before the result was there. The run now waits on
 * `stream`.
 */
export function unheardOf(
  sought: { peerId: string; agentId: string; task: string },
  stream: FramedStream,
  { wrappedRuns, deferred }: Pick<Deps, 'wrappedRuns' | 'deferred'>,
): Hex | undefined {
  const run = wrappedRuns.get(keyOf(sought))
  if (run?.stream.ended !== true) return deferred.findUnheard(sought)
  run.stream = stream
  return run.id
}

function keyOf({ peerId, agentId, task }: { peerId: string; agentId: string; task: string }): string {
  return createHash('sha256').update(`${peerId}\n${agentId}\n${task}`).digest('base64')
}
