import * as z from 'zod'

const count = z.int().min(0)

/** What the answering node has measured of an agent. No figure comes from the seller. */
export const AgentStats = z
  .object({
    calls: count.meta({ description: 'calls of this node that the seller finished, successful or not' }),
    success_rate: z.number().min(0).max(1).nullable().meta({ description: 'null before the first call' }),
    p50_ms: z.number().nullable().meta({ description: 'time of the latest successful calls, including settlement' }),
    p95_ms: z.number().nullable(),
    last_seen: z.string().nullable().meta({ description: 'when the seller last answered a call' }),
    settled_volume: z.string().meta({ description: 'settled payments to the agent, in USDC as decimal text' }),
    settled_volume_atomic: z.string(),
  })
  .meta({ id: 'AgentStats', description: 'Own measurements of an agent.' })
export type AgentStats = z.infer<typeof AgentStats>

/** Ratings of an agent on the chain (ERC-8004, D21). */
export const Reputation = z
  .object({
    token_id: z.string(),
    network: z.string(),
    registry: z.string().meta({ description: 'address of the reputation registry' }),
    count: count.meta({ description: 'number of raters; anybody can rate, so the number alone proves little' }),
    score: z.number().nullable().meta({ description: 'average rating, usually from 0 to 100; null without ratings' }),
    value: z.string().meta({ description: 'the average in the registry: an integer with `decimals` decimals' }),
    decimals: count,
  })
  .meta({ id: 'Reputation', description: 'The ratings of an agent on the chain.' })
export type Reputation = z.infer<typeof Reputation>

export const IdentityParams = z.strictObject({
  tokenId: z
    .string()
    .regex(/^(0|[1-9][0-9]{0,77})$/, 'is not an ERC-721 token id: a whole number, 0 or more')
    // Runs even if the pattern does not match.
    .refine((text) => !/^[0-9]+$/.test(text) || BigInt(text) < 2n ** 256n, 'is larger than the largest token id')
    .meta({ description: 'ERC-721 token id of the identity registry; the first is 0' }),
})

/** The body of POST /agents/{id}/register-onchain. */
export const RegisterOnchain = z
  .strictObject({
    uri: z
      .string()
      .max(2048)
      .regex(/^(https:\/\/|ipfs:\/\/|data:)/, 'is not an https:, ipfs: or data: URI')
      .optional()
      .meta({ description: 'address of the registration file; default: the file is stored on the chain' }),
  })
  .meta({ id: 'RegisterOnchain' })

export const OnchainIdentity = z
  .object({
    agent_id: z.string(),
    token_id: z.string(),
    network: z.string(),
    registry: z.string().meta({ description: 'address of the identity registry' }),
    uri: z.string().meta({ description: 'address of the registration file' }),
    minted: z
      .boolean()
      .meta({ description: 'false: the agent already had a token, and its registration file was updated' }),
    tx_hash: z.string().meta({ description: 'the transaction that minted the token or updated the file' }),
    update_tx_hash: z
      .string()
      .optional()
      .meta({ description: 'after the mint: the transaction that put the token into the registration file' }),
    notice: z.string().optional().meta({ description: 'what is missing in the registration file, and what to do' }),
  })
  .meta({ id: 'OnchainIdentity', description: 'An agent with an identity on the chain.' })
export type OnchainIdentity = z.infer<typeof OnchainIdentity>

const Tag = z.string().max(64).optional()
/** The body of POST /agents/{id}/feedback. */
export const GiveFeedback = z
  .strictObject({
    score: z.number().min(0).max(100).meta({ description: 'from 0 to 100, two decimals' }),
    tag1: Tag.meta({ description: 'a public word that groups ratings' }),
    tag2: Tag,
  })
  .meta({ id: 'GiveFeedback', description: 'A rating that this node writes to the chain. It is public and permanent.' })
export type GiveFeedback = z.infer<typeof GiveFeedback>

export const FeedbackGiven = z
  .object({
    agent_id: z.string(),
    token_id: z.string(),
    network: z.string(),
    registry: z.string(),
    score: z.number(),
    tx_hash: z.string(),
  })
  .meta({ id: 'FeedbackGiven' })
export type FeedbackGiven = z.infer<typeof FeedbackGiven>
