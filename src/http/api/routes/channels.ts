import type { ChannelsApi } from '../../../ledger/channels-api.ts'
import {
  ChannelParams,
  ChannelQuery,
  ChannelRecord,
  ChannelRecords,
  ChannelSums,
} from '../../../schema/channel-record.ts'
import { type Operation, operation, paged } from '../operation.ts'

const row = { tags: ['channels'], access: 'private', scope: 'read', method: 'GET' } as const

export function channelRoutes(channels: ChannelsApi): Operation[] {
  return [listChannels(channels), getChannelSums(channels), getChannel(channels)]
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
