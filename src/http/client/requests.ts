import type * as z from 'zod'
import { formatPrice } from '../../schema/amount.ts'
import type { ChannelWish } from '../../schema/channel.ts'
import type { ExecuteBody } from '../../schema/execute.ts'
import type { WebWish } from '../../schema/web-purchase.ts'

export type Options = { signal?: AbortSignal; timeoutMs?: number; idempotencyKey?: string | undefined }
export type PageOptions = { limit?: number | undefined; cursor?: string | undefined }

export type Requests = {
  request<T extends z.ZodType>(
    path: string,
    response: T,
    options?: Options,
    body?: object,
    method?: 'DELETE' | 'PATCH' | 'POST' | 'PUT',
  ): Promise<z.output<T>>
  linked<T extends z.ZodType>(
    path: string,
    query: object,
    response: T,
    options?: Options,
  ): Promise<{ body: z.output<T>; next: string | undefined }>
}

export type ExecuteCall = {
  agentId: string
  input: string
  maxPriceAtomic?: bigint | undefined
  awaitsSettlement?: boolean | undefined
  channel?: ChannelWish | undefined
  /** Names the call, so that it is done once (D38). Default: a new key. */
  idempotencyKey?: string | undefined
}

export function bodyOf({ agentId, input, maxPriceAtomic, awaitsSettlement, channel }: ExecuteCall): ExecuteBody {
  const max_price = maxPriceAtomic === undefined ? undefined : formatPrice(maxPriceAtomic)
  return { agent_id: agentId, input, max_price, await_settlement: awaitsSettlement, channel }
}

export type BuyUrlCall = Pick<ExecuteCall, 'maxPriceAtomic' | 'awaitsSettlement' | 'idempotencyKey'> & WebWish

export function urlBodyOf({
  maxPriceAtomic,
  awaitsSettlement,
  expected,
  headers,
  ...request
}: BuyUrlCall): ExecuteBody {
  const text = (amount: bigint | undefined) => (amount === undefined ? undefined : formatPrice(amount))
  const { amount, payTo, asset, network } = expected ?? {}
  return {
    ...request,
    ...(headers && { headers: { ...headers } }),
    max_price: text(maxPriceAtomic),
    await_settlement: awaitsSettlement,
    ...(expected && { expected: { price: text(amount), pay_to: payTo, asset, network } }),
  }
}

/** Builds a path. Each id is encoded as one segment. */
export function at(...segments: string[]): string {
  return segments.map((segment) => `/${encodeURIComponent(segment)}`).join('')
}
