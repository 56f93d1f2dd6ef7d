import * as z from 'zod'
import { AgentRef, agentOf, taskFields, taskOf } from './api.ts'
import type { ChannelWish } from './channel.ts'
import { expectedOf, refuseGiven, webFields } from './web-purchase.ts'

type TaskFields = Parameters<typeof taskOf>[0] & {
  max_price?: bigint | undefined
  await_settlement?: boolean | undefined
  channel?: ChannelWish | undefined
}

function readTask({ task, input, max_price, await_settlement, channel }: TaskFields, context: z.core.$RefinementCtx) {
  return {
    input: taskOf({ task, input }, context),
    ...(max_price !== undefined && { maxPriceAtomic: max_price }),
    ...(await_settlement !== undefined && { awaitsSettlement: await_settlement }),
    ...(channel !== undefined && { channel }),
  }
}

type UrlFields = TaskFields & { agent_id?: string | undefined; agentId?: string | undefined } & {
  [K in 'method' | 'headers' | 'body' | 'expected']: z.output<(typeof webFields)[K]>
}

function readUrlPurchase({ agent_id, agentId, channel, ...fields }: UrlFields, context: z.core.$RefinementCtx) {
  const { task, input, max_price, await_settlement, method, headers, body, expected } = fields
  refuseGiven({ agent_id, agentId, channel }, 'does not go with url', context)
  const hasTask = task !== undefined || input !== undefined
  return {
    ...(hasTask && { task: taskOf({ task, input }, context) }),
    ...(method !== undefined && { method }),
    ...(headers !== undefined && { headers }),
    ...(body !== undefined && { body }),
    ...(expected !== undefined && { expected: expectedOf(expected) }),
    ...(max_price !== undefined && { maxPriceAtomic: max_price }),
    ...(await_settlement !== undefined && { awaitsSettlement: await_settlement }),
  }
}

/** POST /agents/{id}/execute. Strict, like every body that spends: a mistyped `max_price` must not be ignored. */
export const ExecuteAgent = z
  .strictObject({ agent_id: AgentRef.optional(), ...taskFields })
  .meta({ id: 'ExecuteAgent', description: 'Give `task` or `input`.' })
  .transform((body, context) => ({ agent_id: body.agent_id, ...readTask(body, context) }))

/** The body of POST /execute: of an agent of the market, or of an x402 seller over HTTP. */
export const Execute = z
  .strictObject({
    agent_id: AgentRef.optional(),
    agentId: AgentRef.optional().meta({ description: 'another spelling of `agent_id`' }),
    ...taskFields,
    ...webFields,
  })
  .meta({ id: 'Execute', description: 'Give `agent_id`, and `input` or `task`; or `url`, and a task or a request.' })
  .transform(({ url, method, headers, body: sent, expected, ...body }, context) => {
    if (url !== undefined)
      return { url, ...readUrlPurchase({ ...body, method, headers, body: sent, expected }, context) }
    refuseGiven({ method, headers, body: sent, expected }, 'needs url', context)
    return { agent_id: agentOf(body.agent_id, body.agentId, context), ...readTask(body, context) }
  })
export type ExecuteBody = z.input<typeof Execute>
