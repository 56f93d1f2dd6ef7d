import { randomUUID } from 'node:crypto'
import type { Context } from '../command.ts'
import type { RemoteNode } from '../parts.ts'
import { printableLine } from '../text/terminal-text.ts'

/** How long a command that ends before the answer looks for its order. */
const LOOK_MS = 2_000

type LeftOptions = {
  idempotencyKey?: string | undefined
  signal: AbortSignal
  spinner: { stop(): void } | undefined
}

/**
 * Makes a call that spends, with a key that names it. If the command ends before the answer, by Ctrl-C or its time limit,
 * and the payment is signed, the node goes on with the call: then this says where the result will be.
 */
export async function orTellOrder<T>(
  { tell, json }: Context,
  node: Pick<RemoteNode, 'orders'>,
  { idempotencyKey = randomUUID(), signal, spinner }: LeftOptions,
  call: (idempotencyKey: string) => Promise<T>,
): Promise<T> {
  try {
    return await call(idempotencyKey)
  } catch (error) {
    // With --json, who reads it finds the order by its key.
    if (signal.aborted && !json) {
      const query = { idempotencyKey, limit: 1 }
      const found = await node.orders(query, { signal: AbortSignal.timeout(LOOK_MS) }).catch(() => undefined)
      const [order] = found?.items ?? []
      if (order?.payment !== undefined) {
        spinner?.stop()
        tell(`the payment is signed, so the call goes on: stoa order show ${printableLine(order.id, 64)} --wait`)
      }
    }
    throw error
  }
}
