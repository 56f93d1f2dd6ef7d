import type { ChannelOperations } from '../../../buying/channels/channel-operations.ts'
import type { ChannelsApi } from '../../../ledger/channels-api.ts'
import {
  ChannelParams,
  ChannelQuery,
  ChannelRecord,
  ChannelRecords,
  ChannelSums,
  OpenChannel,
  RecoverChannels,
  RecoveredChannels,
} from '../../../schema/channel-record.ts'
import { type Operation, operation, paged } from '../operation.ts'

const row = { tags: ['channels'], access: 'private', scope: 'read', method: 'GET' } as const

const change = { ...row, scope: 'admin', method: 'POST', response: ChannelRecord } as const

export function channelRoutes(channels: ChannelsApi, operations: ChannelOperations): Operation[] {
  return [
    listChannels(channels),
    getChannelSums(channels),
    getChannel(channels),
    openChannel(channels, operations),
    closeChannel(channels, operations),
    withdrawFromChannel(channels, operations),
    recoverChannels(channels, operations),
  ]
}

const listChannels = (channels: ChannelsApi) =>
  operation({
    ...row,
    id: 'listChannels',
    path: '/channels',
    summary: 'Payment channels of this node, newest first',
    description: 'Those by which it pays and those by which it is paid, as it last read them on the chain.',
    query: ChannelQuery,
    response: ChannelRecords,
    handler: async ({ query }) => paged(await channels.list(query)),
  })

const getChannelSums = (channels: ChannelsApi) =>
  operation({
    ...row,
    id: 'getChannelSums',
    path: '/channels/sums',
    summary: 'What lies in all payment channels of this node',
    response: ChannelSums,
    handler: () => channels.sums(),
  })

const getChannel = (channels: ChannelsApi) =>
  operation({
    ...row,
    id: 'getChannel',
    path: '/channels/{id}',
    summary: 'One payment channel',
    params: ChannelParams,
    response: ChannelRecord,
    errors: ['UNKNOWN_CHANNEL'],
    handler: ({ params }) => channels.get(params.id),
  })

const openChannel = (channels: ChannelsApi, operations: ChannelOperations) =>
  operation({
    ...change,
    id: 'openChannel',
    path: '/channels',
    summary: 'Open a payment channel by hand',
    description:
      'Signs a deposit into a new channel to the seller of an agent, and answers when it is on disk: the chain shows the ' +
      'deposit later. `buyer.channel_deposit_max` holds. A node opens channels by itself where they are worth their ' +
      'transactions. While a channel to this seller is open, none is opened beside it, so the request may be repeated.',
    body: OpenChannel,
    example: { agent_id: '6vksq4xi7l2gqk5jrzq3a5u6sm', deposit: '0.5' },
    status: 201,
    repeatable: true,
    errors: ['UNKNOWN_AGENT', 'NETWORK_MISMATCH', 'INSUFFICIENT_FUNDS', 'CHAIN_UNAVAILABLE', 'CHAIN_WRONG'],
    location: ({ id }) => `/channels/${id}`,
    handler: async ({ body: { agent_id: agentId, deposit: amount } }) =>
      channels.get(await operations.open({ agentId, amount })),
  })

const closeChannel = (channels: ChannelsApi, operations: ChannelOperations) =>
  operation({
    ...change,
    id: 'closeChannel',
    path: '/channels/{id}/close',
    summary: 'Leave a payment channel, and get its money back',
    description:
      'No new call is paid by it. When the calls under way have ended, the node asks the seller for what is free. What the ' +
      'seller does not give within 10 minutes, the node takes out by a withdrawal: two transactions of its account, the ' +
      'second one after the delay of the channel. Answers at once: `state` and `leaving` show how far it is.',
    params: ChannelParams,
    repeatable: true,
    errors: ['UNKNOWN_CHANNEL', 'CHAIN_UNAVAILABLE'],
    async handler({ params: { id } }) {
      await operations.close(id)
      return channels.get(id)
    },
  })

const withdrawFromChannel = (channels: ChannelsApi, operations: ChannelOperations) =>
  operation({
    ...change,
    id: 'withdrawFromChannel',
    path: '/channels/{id}/withdraw',
    summary: 'Leave a payment channel without asking its seller',
    description:
      'Like closing it, but the withdrawal begins when the calls under way have ended. It takes out each unit, whatever its ' +
      'transactions cost.',
    params: ChannelParams,
    repeatable: true,
    errors: ['UNKNOWN_CHANNEL', 'CHAIN_UNAVAILABLE'],
    async handler({ params: { id } }) {
      await operations.withdraw(id)
      return channels.get(id)
    },
  })

const recoverChannels = (channels: ChannelsApi, operations: ChannelOperations) =>
  operation({
    ...change,
    id: 'recoverChannels',
    path: '/channels/recover',
    summary: 'Find payment channels of a lost ledger on the chain, and get their money back',
    description:
      'Searches the log of the chain for deposits of this wallet. Channels that this ledger does not know are left: the ' +
      'node signs nothing on them, asks the seller for what is free if it is on the market, and takes the rest out by a ' +
      'withdrawal. Channels of another node with the same wallet would be left too. Answers when the search is over: a year takes up to some thousand requests to the RPC.',
    body: RecoverChannels,
    response: RecoveredChannels,
    example: { days: 30 },
    repeatable: true,
    errors: ['CHAIN_UNAVAILABLE', 'CHAIN_WRONG'],
    async handler({ body: { days }, signal }) {
      const { recovered, isWhole: whole, ...counts } = await operations.recover(days, signal)
      const records = await Promise.all(recovered.map((id) => channels.get(id)))
      return { recovered: records, ...counts, older: [...counts.older], whole }
    },
  })
