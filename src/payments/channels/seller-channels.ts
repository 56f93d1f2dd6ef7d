import type { ChannelReader, ChannelState } from '../../chain/batch-settlement.ts'
import { type Clock, momentOf } from '../../lib/clock.ts'
import type { Service } from '../../lib/lifecycle.ts'
import type { Logger } from '../../lib/logger.ts'
import type { ChannelConfig } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { SellerChannelStore, StoredSellerChannel } from '../../store/seller-channels.ts'
import type { Asset } from '../assets.ts'
import type { IsBlocked } from '../blocked.ts'
import { channelId } from '../channel-digests.ts'
import { checkVoucher } from '../voucher.ts'
import { type AskedCall, usedBy } from './call-turn.ts'
import { ChannelRefused, ChannelsBusy, elsewhere } from './channel-refused.ts'
import { type AgreedRefund, chainFacts } from './channel-turn.ts'
import { FreshReadings } from './fresh-readings.ts'
import type { KeptChannel, KeptChannels, KnownBy } from './kept-channels.ts'
import { OpenChannel } from './open-channel.ts'
import { openAtSeller, type RefundAsk } from './seller-channel.ts'
import { channelOf } from './seller-record.ts'
import { refuseTerms, type SellerTerms, troubleForSeller } from './terms.ts'

type SellerChannelLimits = {
  /** Channels in memory. Beyond it those that are idle are read again when they are used. */
  openMax: number
  /** Channels in the ledger. A channel needs a deposit. */
  perPeerMax: number
  max: number
}

const LIMITS: SellerChannelLimits = { openMax: 4_096, perPeerMax: 16, max: 10_000 }

type SellerChannelsDeps = {
  clock: Clock
  logger: Logger
  asset: Asset
  store: SellerChannelStore
  /** Reads the chain, at the depth at which this seller believes a deposit. */
  reader: Pick<ChannelReader, 'channels'>
  terms: SellerTerms
  /** False: only channels that are in the ledger. */
  takesNew(): boolean
  isBlocked: IsBlocked
  blame(peerId: string): void
  limits?: Partial<SellerChannelLimits>
}

type KnownCall = { peerId: string; payment: KnownBy }
type Asking = AskedCall & KnownCall

/**
 * The payment channels that this process has. It believes only terms that it has computed the id from, vouchers whose
 * signature it has checked, and deposits that it has read on the chain. Nothing is stored for a stranger before that.
 */
export class SellerChannels implements Service, KeptChannels {
  readonly name = 'payment channels'
  readonly #deps: SellerChannelsDeps
  readonly #limits: SellerChannelLimits
  readonly #readings: FreshReadings
  readonly #open = new Map<Hex, OpenChannel>()
  readonly #opening = new Map<Hex, Promise<OpenChannel | undefined>>()
  /** What the ledger said of the chain when the channels were listed last. */
  #listed = new Map<Hex, string>()
  readonly #stopping = new AbortController()

  constructor(deps: SellerChannelsDeps) {
    this.#deps = deps
    this.#limits = { ...LIMITS, ...deps.limits }
    this.#readings = new FreshReadings(deps)
  }

  /** False: only channels that are in the ledger. */
  get takesNew(): boolean {
    return this.#deps.takesNew()
  }

  async start(): Promise<void> {}

  async stop(): Promise<void> {
    this.#stopping.abort()
  }

  /**
   * Reserves what a call may cost. Its voucher is on disk when it resolves.
   *
   * @throws ChannelRefused, ChannelsBusy, ChainError, StoreError, or the reason of `signal`
   */
  async take(call: Asking, signal: AbortSignal): Promise<OpenChannel> {
    const channel = await this.#channelOf(call, signal)
    if (this.#deps.isBlocked(channel.channel.config.payer)) {
      throw new ChannelRefused('refused', 'this seller takes no payments from this account')
    }
    using _held = channel.hold()
    await this.#readings.refresh(channel, signal)
    try {
      await channel.take(call)
    } catch (error) {
      if (!isShortOfDeposits(error) || !(await this.#readings.isFilledUp(channel, signal))) throw error
      await channel.take(call)
    }
    return channel
  }

  /** True while another living process has this channel of the peer. That process is asked to give it up. */
  async isElsewhere(id: Hex, peerId: string): Promise<boolean> {
    if (this.#open.has(id) || (await this.#deps.store.get(id))?.peerId !== peerId) return false
    return this.isWithAnother(id, { asks: true })
  }

  /** True while another living process has this channel. `asks`: it is asked to give the channel up. */
  async isWithAnother(id: Hex, { asks }: { asks: boolean }): Promise<boolean> {
    const taken = this.#open.has(id) ? undefined : await this.#deps.store.take(id)
    if (taken === undefined || taken.isOwn) return false
    if (asks) await this.#deps.store.ask(id)
    return true
  }

  /** A channel of any process as it is on disk. Undefined: this seller does not know it. */
  onDisk(id: Hex): Promise<StoredSellerChannel | undefined> {
    return this.#deps.store.get(id)
  }

  async list(): Promise<KeptChannel[]> {
    const taken = await this.#deps.store.list(this.#deps.asset.network)
    this.#listed = new Map(taken.map(({ channel: { id, onChain } }) => [id, chainFacts(onChain)]))
    return taken.map(({ channel, isOwn }) => {
      const { owedSince, usedAt } = channel
      return { channel: channelOf(channel), isOwn, owedSince, usedAt }
    })
  }

  async seen(id: Hex, onChain: ChannelState, at = momentOf(this.#deps.clock)): Promise<void> {
    if (!this.#open.has(id) && this.#listed.get(id) === chainFacts(onChain)) return
    ;(await this.#own(id))?.seen(onChain, at)
  }

  async know(asked: KnownCall, signal: AbortSignal): Promise<void> {
    await this.#channelOf(asked, signal)
  }

  /** The channel, if this process has it now. Each time that it gets a channel, it is another object. */
  owned(channelId: string): OpenChannel | undefined {
    return this.#open.get(channelId.toLowerCase() as Hex)
  }

  async agreeToRefund(id: Hex, ask: RefundAsk): Promise<AgreedRefund> {
    return (await this.#own(id))?.agreeToRefund(ask)
  }

  /** Another process asks for this channel: see store/shared-changes.ts. */
  wanted(id: Hex): void {
    const open = this.#open.get(id)
    if (open !== undefined) open.wanted()
    else if (!this.#opening.has(id)) {
      this.#deps.store.giveUp(id).catch((err: unknown) => {
        this.#deps.logger.warn({ err }, 'could not give a channel to another process')
      })
    }
  }

  async #channelOf(call: KnownCall, signal: AbortSignal): Promise<OpenChannel> {
    const id = call.payment.voucher.channelId.toLowerCase() as Hex
    // Ids are no secret. A peer that cannot sign for a channel must not move it from process to process.
    const stored = this.#open.has(id) ? undefined : await this.#deps.store.get(id)
    if (stored !== undefined) this.#checkVoucher(usedBy(call, stored).config, call)
    const known = this.#open.get(id) ?? (await this.#once(id, () => this.#known(id)))
    if (known !== undefined) return known
    if (!this.takesNew) throw new ChannelRefused('refused', 'this seller takes no new payment channels')
    const { config } = call.payment
    if (config === undefined)
      throw new ChannelRefused('unknown', 'this seller does not know this channel: send its terms')
    this.#check(config, call, id)
    const opened = await this.#once(id, () => this.#adopt(id, config, call.peerId))
    signal.throwIfAborted()
    if (opened === undefined) {
      throw new ChannelRefused('balance', 'this seller sees no deposit of this channel on the chain')
    }
    return opened
  }

  /** Calls of one channel wait for one opening. */
  #once(id: Hex, open: () => Promise<OpenChannel | undefined>): Promise<OpenChannel | undefined> {
    const known = this.#opening.get(id)
    if (known !== undefined) return known
    const opening = open().finally(() => this.#opening.delete(id))
    this.#opening.set(id, opening)
    return opening
  }

  /** A channel of this process, or that no living process has. That of another process stays there. */
  async #own(id: Hex): Promise<OpenChannel | undefined> {
    const left = async () => {
      const taken = await this.#deps.store.take(id)
      if (taken?.isOwn !== true) return undefined
      return troubleForSeller(taken.channel.config, this.#deps.terms) ? undefined : this.#opened(taken.channel)
    }
    try {
      return this.#open.get(id) ?? (await this.#once(id, left))
    } catch (error) {
      if (error instanceof ChannelRefused || error instanceof ChannelsBusy) return undefined
      throw error
    }
  }

  async #known(id: Hex): Promise<OpenChannel | undefined> {
    const taken = await this.#deps.store.take(id)
    if (taken === undefined) return undefined
    if (!taken.isOwn) {
      await this.#deps.store.ask(id)
      throw elsewhere()
    }
    refuseTerms(taken.channel.config, this.#deps.terms)
    return this.#opened(taken.channel)
  }

  /** What speaks against a channel of a stranger, before the chain is asked. The first call proves who signs. */
  #check(config: ChannelConfig, call: KnownCall, id: Hex): void {
    const { asset, terms, isBlocked } = this.#deps
    refuseTerms(config, terms)
    const computed = channelId(config, asset.chainId)
    if (computed !== id) throw new ChannelRefused('refused', `these are the terms of channel ${computed}, not of ${id}`)
    if (isBlocked(config.payer)) throw new ChannelRefused('refused', 'this seller takes no payments from this account')
    this.#checkVoucher(config, call)
  }

  #checkVoucher(config: ChannelConfig, { payment: { voucher }, peerId }: KnownCall): void {
    const { asset, blame } = this.#deps
    const verdict = checkVoucher(config, voucher, asset.chainId)
    if (verdict.ok) return
    blame(peerId)
    throw new ChannelRefused('refused', verdict.reason)
  }

  /** Stores a channel that has deposits. Undefined: it has none. */
  async #adopt(id: Hex, config: ChannelConfig, peerId: string): Promise<OpenChannel | undefined> {
    const { store, clock, asset } = this.#deps
    const at = momentOf(clock)
    const { wall } = at
    const onChain = await this.#readings.look(id, this.#stopping.signal)
    if (onChain.balance === 0n) return undefined
    const { charged, seq, best } = openAtSeller(id, config, onChain)
    const record: StoredSellerChannel = {
      ...{ id, network: asset.network, config, peerId, onChain, seenAt: wall, best, charged, seq },
      ...{ owedSince: undefined, createdAt: wall, usedAt: wall },
    }
    const { perPeerMax, max } = this.#limits
    const added = await store.add(record, { perPeerMax, max })
    if (added === 'full') throw new ChannelRefused('refused', 'this seller has no room for more channels')
    // Another process was first, or the row is left behind.
    if (added === 'known') return this.#known(id)
    const opened = this.#opened(record)
    opened.seen(onChain, at)
    return opened
  }

  #opened(record: StoredSellerChannel): OpenChannel {
    this.#makeRoom()
    const { clock, logger, asset, store, blame } = this.#deps
    const deps = { clock, logger, store, blame, chainId: asset.chainId, stopping: this.#stopping.signal }
    const opened = new OpenChannel(record, deps, () => {
      if (this.#open.get(record.id) === opened) this.#open.delete(record.id)
    })
    this.#open.set(record.id, opened)
    return opened
  }

  /** Forgets the idle channels that were opened first. Their rows stay. */
  #makeRoom(): void {
    if (this.#open.size < this.#limits.openMax) return
    for (const [id, channel] of this.#open) {
      if (channel.retire()) this.#open.delete(id)
      if (this.#open.size < this.#limits.openMax) return
    }
    throw new ChannelsBusy('this seller works on too many channels now')
  }
}

function isShortOfDeposits(error: unknown): boolean {
  return error instanceof ChannelRefused && error.statement.reason === 'balance'
}
