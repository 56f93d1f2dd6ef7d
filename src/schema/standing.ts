import * as z from 'zod'

const count = z.int().min(0)

/** What the answering node has measured itself of an agent. Nothing of it comes from the seller. */
export const AgentStats = z
  .object({
    calls: count.meta({ description: 'calls of this node that its seller brought to an end, well or not' }),
    success_rate: z.number().min(0).max(1).nullable().meta({ description: 'null before the first call' }),
    p50_ms: z.number().nullable().meta({ description: 'of the latest calls that went well, settlement included' }),
    p95_ms: z.number().nullable(),
    last_seen: z.string().nullable().meta({ description: 'when its seller answered a call last' }),
    settled_volume: z.string().meta({ description: 'USDC paid to it that is settled, as decimal text' }),
    settled_volume_atomic: z.string(),
  })
  .meta({ id: 'AgentStats', description: 'What this node has measured of an agent.' })
export type AgentStats = z.infer<typeof AgentStats>

/** What others have said of an agent on the chain (ERC-8004, D21). */
export const Reputation = z
  .object({
    token_id: z.string(),
    network: z.string(),
    registry: z.string().meta({ description: 'address of the reputation registry' }),
    count: count.meta({ description: 'how many have rated it: anybody can, so a number alone proves little' }),
    score: z.number().nullable().meta({ description: 'their average, from 0 to 100; null while there is none' }),
    value: z.string().meta({ description: 'the same as the registry has it: an integer with `decimals` decimals' }),
    decimals: count,
  })
  .meta({ id: 'Reputation', description: 'What the chain says of an agent.' })
export type Reputation = z.infer<typeof Reputation>
