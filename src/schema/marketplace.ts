import * as z from 'zod'

export const MARKETPLACE_PROTOCOL = '/node/marketplace/1.0.0'

/** Frame type `execute` of the free-agent protocol (D35). `agentId` and `task` are accepted spellings. */
export const MarketplaceExecute = z
  .object({
    agent_id: z.string().min(1).max(256).optional(),
    agentId: z.string().min(1).max(256).optional(),
    input: z.string().optional(),
    task: z.string().optional(),
    correlation_id: z.uuidv4().optional(),
    may_refer: z.unknown().optional(),
  })
  .transform(({ agent_id, agentId, input, task, correlation_id, may_refer }, context) => {
    const id = agent_id ?? agentId
    const text = input ?? task
    if (id === undefined) context.addIssue({ code: 'custom', path: ['agent_id'], message: 'agent_id is missing' })
    if (text === undefined) context.addIssue({ code: 'custom', path: ['input'], message: 'input is missing' })
    return { agent_id: id ?? '', input: text ?? '', correlation_id, mayRefer: may_refer === true }
  })

/** The answer of the free-agent protocol: u32 big-endian length, then this as JSON. */
export const MarketplaceAnswer = z.union([
  z.object({ output: z.string() }),
  z.object({
    error: z.object({
      code: z.int(),
      name: z.string().max(64),
      message: z.string().max(4096),
      retryable: z.boolean(),
    }),
  }),
])
export type MarketplaceAnswer = z.infer<typeof MarketplaceAnswer>
