import { hash } from 'node:crypto'
import type { Hex } from '../../schema/primitives.ts'
import type { FramedStream } from '../framed-stream.ts'
import type { Exchange, PaidResult, ServedAgent, WrappedRun, X402ServerDeps } from './exchange.ts'
import { type PaidTask, runPaid } from './sale.ts'

/**
 * Runs a paid task for a buyer that wraps it, as the original node does, and remembers the run for this buyer. Such a
 * buyer waits for half a minute, ends its side, and cannot ask for what it paid for. When it sends the same task again,
 * it gets that result and is not charged again. A run that failed after its settlement is run again (D45).
 *
 * The claim says in the ledger for what the buyer waits, because it may come back at another process of this seller.
 */
export async function runWrapped(
  agent: ServedAgent,
  task: PaidTask,
  exchange: Exchange,
  deps: X402ServerDeps,
): Promise<PaidResult & { id: Hex }> {
  const { wrappedRuns, deferred, payments, logger } = deps
  const { peerId, stream, correlationId } = exchange
  const awaited = digestOf({ peerId, agentId: agent.id, task: task.input })
  const key = keyOf(awaited)
  let begun: WrappedRun | undefined
  const end = (id: Hex, isHeard: boolean) =>
    (isHeard ? deferred.ended(id) : deferred.unheard(id)).catch((err: unknown) => {
      const ids = { payment_id: id, correlation_id: correlationId }
      logger.error({ ...ids, err }, 'could not store if a buyer may come back for its result')
    })
  try {
    const onClaimed = ({ id }: { id: Hex }) => {
      begun = { id, stream }
      wrappedRuns.set(key, begun)
    }
    const paid = await runPaid(agent, { ...task, awaited, onClaimed }, exchange, deps)
    // Before the answer: the next request for this task is another purchase.
    await end(paid.id, !(begun?.stream ?? stream).ended)
    return paid
  } catch (error) {
    // If the ledger cannot be read, nothing can be kept either.
    const payment = begun && (await payments.get(begun.id).catch(() => undefined))
    if (payment !== undefined) await end(payment.id, payment.state !== 'settled')
    throw error
  } finally {
    if (wrappedRuns.get(key) === begun) wrappedRuns.delete(key)
  }
}

type Sought = { peerId: string; agentId: string; task: string }

/** The payment of a peer that asks for the same task and left before its result. Its run then answers on `stream`. */
export async function unheardOf(
  sought: Sought,
  stream: FramedStream,
  deps: Pick<X402ServerDeps, 'wrappedRuns' | 'deferred' | 'running'>,
): Promise<Hex | undefined> {
  const awaited = digestOf(sought)
  const run = deps.wrappedRuns.get(keyOf(awaited))
  if (run?.stream.ended === true) {
    run.stream = stream
    return run.id
  }
  const [unheard, underWay] = await Promise.all([deps.deferred.findUnheard(sought), deps.deferred.findAwaited(awaited)])
  // This process cannot know if the buyer of another process's run has left. A buyer that asks here probably has.
  return unheard ?? underWay.find((id) => !isHere(id, deps))
}

/** True for a run of this process, whose buyer still waits for it. */
function isHere(id: Hex, { running, wrappedRuns }: Pick<X402ServerDeps, 'wrappedRuns' | 'running'>): boolean {
  return running.has(id) || [...wrappedRuns.values()].some((run) => run.id === id)
}

function digestOf({ peerId, agentId, task }: Sought): Buffer {
  return hash('sha256', `${peerId}\n${agentId}\n${task}`, 'buffer')
}

const keyOf = (awaited: Buffer) => awaited.toString('base64')
