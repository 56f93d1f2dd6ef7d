import { randomUUID } from 'node:crypto'
import type { Context } from '../command.ts'
import type { OwnNode } from '../parts.ts'
import { printableLine } from '../text/terminal-text.ts'

/** How long a command that ends before the answer looks for its order. */
const LOOK_MS = 2_000

type LeftOptions = {
  idempotencyKey?: string | undefined
  signal: AbortSignal
  spinner: { stop(): void } | undefined
}

/** Where the orders are: a running node, or the node of the command. */
type Orders = {
  orders(
    query: { idempotencyKey: string; limit: number },
    options: { signal: AbortSignal },
  ): Promise<{ items: readonly { id: string; payment?: unknown }[] }>
  /** True if the node ends with the command. */
  readonly isOwn?: true
}

/** The orders of the node of a command. */
export function ownOrders({ orders }: Pick<OwnNode, 'orders'>): Orders {
  return { orders: (query) => orders.list(query), isOwn: true }
}

/**
 * Makes a call that spends, with a key that names it. If the command ends before the answer, by Ctrl-C or its time limit,
 * and the payment is signed, a node goes on with the call: then this says where the result will be.
 */
export async function orTellOrder<T>(
  { tell, json }: Context,
  node: Orders,
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
        const goesOn = node.isOwn
          ? 'and a node on this data directory gets the result: stoa start, then'
          : 'so the call goes on:'
        tell(`the payment is signed, ${goesOn} stoa order show ${printableLine(order.id, 64)} --wait`)
      }
    }
    throw error
  }
}
