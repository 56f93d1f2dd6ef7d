import * as z from 'zod'
import { Price, PriceText } from './amount.ts'
import { cursorOf, Limit } from './page.ts'
import { Address, AnyNetwork, Hash32 } from './primitives.ts'

/** An amount under two names: in USDC, and in atomic units. */
function amountOf<const Name extends string>(name: Name, description: string) {
  const usdc = z.string().meta({ description: `${description}, in USDC` })
  const atomic = z.string().meta({ description: 'the same in atomic units' })
  return { [name]: usdc, [`${name}_atomic`]: atomic } as { [K in Name | `${Name}_atomic`]: z.ZodString }
}

const states = ['opening', 'open', 'leaving', 'withdrawing', 'stopped', 'empty', 'closed'] as const

const leaveReasons = ['asked', 'idle', 'stopped'] as const
const leaveWays = ['refund', 'withdraw'] as const

/** A payment channel as the API shows it. */
export const ChannelRecord = z
  .object({
    id: Hash32,
    role: z.enum(['buyer', 'seller']).meta({ description: '`buyer`: this node pays; `seller`: this node is paid' }),
    state: z.enum(states).meta({
      description:
        '`opening`: the first deposit is not on the chain yet; `leaving`: this node takes its money out, and asks the ' +
        'seller for it; `withdrawing`: the payer takes money out by itself; `stopped`: this node signs no more on it; ' +
        '`empty`: nothing lies in it; `closed`: this node has taken its money out',
    }),
    peer_id: z.string().meta({ description: 'the other side: the seller, or the buyer that uses it' }),
    peer_name: z
      .string()
      .optional()
      .meta({ description: 'what the other side calls itself, if it sells on the market' }),
    agent_id: z.string().optional().meta({ description: 'only of a buyer: the agent that the channel was opened for' }),
    agent_name: z.string().optional().meta({ description: 'its name, if it is known' }),
    payer: Address,
    receiver: Address,
    network: AnyNetwork,
    asset: Address,
    ...amountOf('balance', 'all deposits that the chain shows, less what was taken out'),
    ...amountOf('charged', 'what the calls have cost so far'),
    ...amountOf('signed', 'the highest ceiling of a voucher: the seller can claim no more'),
    ...amountOf('claimed', 'what the seller has claimed on the chain'),
    ...amountOf('unclaimed', 'what is charged and not claimed yet'),
    ...amountOf('free', 'what new calls may cost: neither charged, nor asked by calls under way, nor taken out'),
    calls: z.int().meta({ description: 'charges so far' }),
    calls_under_way: z.int().optional().meta({ description: 'only of a buyer' }),
    deposit: z
      .object({ ...amountOf('amount', 'what is deposited'), valid_before: z.string() })
      .optional()
      .meta({ description: 'a deposit that the chain does not show yet; it can happen until `valid_before`' }),
    withdrawal: z
      .object({ ...amountOf('amount', 'what the payer takes out'), started_at: z.string(), ends_at: z.string() })
      .optional()
      .meta({ description: 'the payer can take the money at `ends_at`, by the clock of the chain' }),
    withdraw_delay_seconds: z.int(),
    leaving: z
      .object({
        why: z.enum(leaveReasons),
        way: z.enum(leaveWays),
        since: z.string(),
        trouble: z.string().optional().meta({ description: 'what went wrong last' }),
      })
      .optional()
      .meta({
        description:
          'why and how a buyer takes its money out. `why`: `asked` by the operator; `idle`: not used for ' +
          '`buyer.channel_idle_hours`; `stopped`: the seller stated what cannot be true. ' +
          '`way`: `refund` asks the seller first; `withdraw` does not',
      }),
    closed_at: z.string().optional(),
    stopped: z.string().optional().meta({ description: 'why this node signs no more on it' }),
    owed_since: z.string().optional().meta({ description: 'only of a seller, if something is unclaimed' }),
    created_at: z.string(),
    used_at: z
      .string()
      .meta({ description: 'the last charge; at a seller also a refund; before any, when it was opened' }),
  })
  .meta({ id: 'Channel', description: 'A payment channel of this node, as the node last read it on the chain.' })
export type ChannelRecord = z.infer<typeof ChannelRecord>
export const ChannelRecords = z.array(ChannelRecord)

/** What lies in all channels of this node. */
export const ChannelSums = z
  .object({
    paying: z
      .object({
        channels: z.int(),
        ...amountOf('locked', 'what was deposited and not spent, with deposits under way'),
        ...amountOf('reserved', 'what is signed and not charged: the most that sellers could take for nothing'),
        ...amountOf('charged', 'what calls have cost so far'),
        withdrawing: z.int().meta({ description: 'channels from which this node takes money out' }),
        stopped: z.int().meta({ description: 'channels that hold money and on which this node signs no more' }),
      })
      .meta({ description: 'channels by which this node pays' }),
    paid: z
      .object({
        channels: z.int(),
        ...amountOf('deposited', 'what buyers have deposited, and nobody has claimed or taken out'),
        ...amountOf('charged', 'what calls have cost so far'),
        ...amountOf('unclaimed', 'what is charged and not claimed yet'),
        withdrawing: z.int().meta({ description: 'channels from which their payers take money out' }),
      })
      .meta({ description: 'channels by which this node is paid' }),
  })
  .meta({ id: 'ChannelSums', description: 'What lies in the payment channels of this node, on its network.' })
export type ChannelSums = z.infer<typeof ChannelSums>

export const ChannelParams = z.strictObject({
  id: z
    .string()
    .regex(/^0x[0-9a-fA-F]{64}$/, 'is not a channel id: 0x and 64 hex digits')
    .meta({ description: 'id of the channel' }),
})
/** The body of POST /channels. */
export const OpenChannel = z
  .strictObject({
    agent_id: z.string().min(1).max(200).meta({ description: 'an agent of the seller' }),
    deposit: z.union([Price, PriceText]).optional().meta({
      description: 'in USDC. Default: 20 calls of the agent, or what the seller takes at least',
    }),
  })
  .meta({ id: 'OpenChannel' })

/** How far back a search for channels goes, in days. */
export const RECOVER_DAYS = { usual: 30, max: 365 }

/** The body of POST /channels/recover. */
export const RecoverChannels = z
  .strictObject({
    days: z
      .int()
      .min(1)
      .max(RECOVER_DAYS.max)
      .default(RECOVER_DAYS.usual)
      .meta({ description: 'how far back the chain is searched' }),
  })
  .meta({ id: 'RecoverChannels' })
export const RecoveredChannels = z
  .object({
    recovered: ChannelRecords.meta({
      description: 'channels with money that the ledger did not know. Their money is taken out now',
    }),
    known: z.int().meta({ description: 'channels with money that the ledger knows already' }),
    empty: z.int().meta({ description: 'channels with nothing to take out' }),
    older: z.array(Hash32).meta({ description: 'channels whose first deposit lies further back: search more days' }),
    whole: z.boolean().meta({ description: 'false: the RPC did not show all of these days. Use another one' }),
  })
  .meta({ id: 'RecoveredChannels' })
export type RecoveredChannels = z.infer<typeof RecoveredChannels>

/** The end of a page: when its last channel was opened, and which one it is. */
const ChannelCursor = cursorOf(/^[0-9]{1,16}\.0x[0-9a-f]{64}$/)
export const ChannelQuery = z.strictObject({
  role: ChannelRecord.shape.role.optional(),
  limit: Limit,
  cursor: ChannelCursor.optional(),
})
export type ChannelQuery = z.output<typeof ChannelQuery>
