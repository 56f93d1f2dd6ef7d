import type { Clock } from '../../lib/clock.ts'
import { reasonOf } from '../../lib/errors.ts'
import { Hold } from '../../lib/hold.ts'
import type { Settler } from '../../payments/settler.ts'
import type { Unrun } from '../../payments/unrun.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { Payments } from '../../store/payments.ts'
import { isLedgerAway, isRefused } from '../../store/store-error.ts'
import { PeerError } from '../peer-error.ts'

/** Runs in progress by payment id. */
type Running = { running: Map<Hex, Promise<void>> }

/** Marks a payment as running until the end of the block. Nothing may happen between the check for a run and this. */
export function beginRun(id: Hex, { running }: Running): Disposable {
  const { promise, resolve } = Promise.withResolvers<void>()
  running.set(id, promise)
  return new Hold(() => {
    // A payment that was abandoned meanwhile stays marked.
    if (running.get(id) === promise) running.delete(id)
    resolve()
  })
}

/** Resolves when the run of a payment has ended. */
export async function runEnd(id: Hex, { running }: Running): Promise<void> {
  for (let run = running.get(id); run !== undefined; run = running.get(id)) await run
}

/**
 * Voids a claimed payment whose run has not begun and never will. Until that is stored, the payment stays marked as
 * running: nobody claims it again, and requests for its result wait.
 */
export function abandon(
  id: Hex,
  { running, unrun }: Running & { unrun: Pick<Unrun, 'abandon'> },
  reason?: string,
): void {
  holdUntil(unrun.abandon(id, reason), id, running)
}

/**
 * Lets other processes run work whose run here ended without a result. If that cannot be stored at once, the payment is
 * marked as running until it is: what began here meanwhile would be taken for the run that has ended. Never rejects.
 */
export async function leaveRun(
  id: Hex,
  { running, payments, unrun }: Running & { payments: Pick<Payments, 'endRun'>; unrun: Pick<Unrun, 'leave'> },
): Promise<void> {
  const isStored = await payments.endRun(id).then(
    () => true,
    () => false,
  )
  if (isStored) return
  for (let run = running.get(id); run !== undefined; run = running.get(id)) await run
  holdUntil(unrun.leave(id), id, running)
}

/**
 * Voids a payment whose run no machine here could end. Another process may claim it once more, if its buyer sends it there.
 *
 * @throws PeerError OVERLOADED
 */
export async function moveOn(
  id: Hex,
  failure: unknown,
  deps: Running & { clock: Clock; payments: Pick<Payments, 'moveOn'>; unrun: Pick<Unrun, 'abandon'> },
): Promise<never> {
  const reason = reasonOf(failure)
  try {
    await deps.payments.moveOn(id, reason, deps.clock.now())
  } catch (error) {
    // Nobody knows whether that is stored. The payment is voided for good, unless another process has it by then.
    abandon(id, deps, reason)
    throw error
  }
  throw new PeerError(
    'OVERLOADED',
    `${reason}. Nothing is charged: send the same payment to another process of this seller`,
  )
}

type EndDeps = Running & {
  payments: Pick<Payments, 'get'>
  settler: Pick<Settler, 'wake'>
  unrun: Pick<Unrun, 'keep' | 'abandon'>
}

const UNSTORABLE = 'the ledger of the seller does not take the result of this run; the buyer was not charged'

/**
 * Stores how a run ended. If the ledger refuses the result, voids the payment. While the ledger is away, keeps the end in
 * memory and marks the payment as running: requests for the result wait, and then get it.
 *
 * @throws what `store` throws: the buyer is told to come back
 */
export async function storeEnd<T>(id: Hex, store: () => Promise<T>, deps: EndDeps): Promise<T> {
  try {
    return await store()
  } catch (error) {
    if (isRefused(error)) {
      // The ledger would refuse it again. Nobody may be charged for a result that cannot be kept.
      abandon(id, deps, UNSTORABLE)
      throw new PeerError('EXECUTION_FAILED', UNSTORABLE, { cause: error })
    }
    if (!isLedgerAway(error)) throw error
    const again = async () => {
      // The first attempt may have been stored without an answer, or another process has ended the payment.
      const state = (await deps.payments.get(id))?.state
      if (state === 'authorized') await store()
      else deps.settler.wake()
      return state === 'voided' ? 'another process has voided the payment: the result of its run is dropped' : undefined
    }
    holdUntil(deps.unrun.keep(id, again), id, deps.running)
    throw error
  }
}

/** Marks a payment as running until this has ended. */
export function holdUntil(end: Promise<void>, id: Hex, running: Running['running']): void {
  const over: Promise<void> = end.finally(() => {
    if (running.get(id) === over) running.delete(id)
  })
  running.set(id, over)
}
