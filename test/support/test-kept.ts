import type { ChannelState } from '../../src/chain/batch-settlement.ts'
import { type Moment, systemClock } from '../../src/lib/clock.ts'
import type { KeptChannel, KeptChannels } from '../../src/payments/channels/kept-channels.ts'
import { type SellerChannel, seenOnChain, signRefund } from '../../src/payments/channels/seller-channel.ts'
import type { Hex } from '../../src/schema/primitives.ts'

type Entry = KeptChannel & { seenAt: number }

/** The channels of a seller's processes, which one process sees. Those of others are on disk only. */
export class TestKept implements KeptChannels {
  readonly entries = new Map<Hex, Entry>()

  put(channel: SellerChannel, changes: Partial<KeptChannel> = {}): SellerChannel {
    const now = systemClock.now()
    this.entries.set(channel.id, { channel, isOwn: true, owedSince: now, usedAt: now, seenAt: 0, ...changes })
    return channel
  }

  of(id: Hex): SellerChannel {
    return this.entries.get(id)!.channel
  }

  async list(): Promise<KeptChannel[]> {
    return [...this.entries.values()]
  }

  async seen(id: Hex, onChain: ChannelState, { monotonic: at }: Moment): Promise<void> {
    const entry = this.entries.get(id)
    if (entry === undefined || at < entry.seenAt || !entry.isOwn) return
    entry.channel = seenOnChain(entry.channel, onChain)
    entry.seenAt = at
  }

  async know() {}

  async agreeToRefund(id: Hex, ask: Parameters<KeptChannels['agreeToRefund']>[1]) {
    const entry = this.entries.get(id)
    if (entry?.isOwn !== true) return undefined
    const signed = signRefund(entry.channel, ask)
    if (signed !== undefined) entry.channel = signed.channel
    return signed
  }
}
