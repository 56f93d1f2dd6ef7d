import type * as z from 'zod'
import {
  type ChannelQuery,
  ChannelRecord,
  ChannelRecords,
  ChannelSums,
  type OpenChannel,
  RecoveredChannels,
} from '../../schema/channel-record.ts'
import type { Page } from '../../schema/page.ts'
import { at, type Options, type PageOptions, type Requests } from './requests.ts'

/** The payment channels of a running node. The functions throw the errors of ApiClient. */
export type ChannelCalls = {
  channels(query?: PageOptions & Partial<Pick<ChannelQuery, 'role'>>, options?: Options): Promise<Page<ChannelRecord>>
  channel(id: string, options?: Options): Promise<ChannelRecord>
  channelSums(options?: Options): Promise<ChannelSums>
  openChannel(asked: z.input<typeof OpenChannel>, options?: Options): Promise<ChannelRecord>
  /** `close` asks the seller first, `withdraw` does not. */
  leaveChannel(id: string, how: 'close' | 'withdraw', options?: Options): Promise<ChannelRecord>
  recoverChannels(days: number, options?: Options): Promise<RecoveredChannels>
}

export function channelCalls({ request, linked }: Requests): ChannelCalls {
  return {
    async channels(query = {}, options) {
      const { body, next } = await linked('/channels', query, ChannelRecords as z.ZodType<ChannelRecord[]>, options)
      return { items: body, next }
    },
    channel: (id, options) => request(at('channels', id), ChannelRecord, options),
    channelSums: (options) => request('/channels/sums', ChannelSums, options),
    openChannel: (asked, options) => request('/channels', ChannelRecord, options, asked),
    leaveChannel: (id, how, options) => request(at('channels', id, how), ChannelRecord, options, {}),
    recoverChannels: (days, options) => request('/channels/recover', RecoveredChannels, options, { days }),
  }
}
