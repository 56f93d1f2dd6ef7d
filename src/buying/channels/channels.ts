import type { ChannelReader } from '../../chain/batch-settlement.ts'
import type { Chain } from '../../chain/chain.ts'
import type { Trading } from '../../ledger/trading.ts'
import { type Clock, monotonicOf } from '../../lib/clock.ts'
import { reasonOf } from '../../lib/errors.ts'
import { faultPoint } from '../../lib/fault-point.ts'
import type { Service } from '../../lib/lifecycle.ts'
import type { Logger } from '../../lib/logger.ts'
import { type Periodic, periodic } from '../../lib/periodic.ts'
import { sameAddress } from '../../payments/assets.ts'
import type { ChannelSigner } from '../../payments/channels/channel-keys.ts'
import type { Sender } from '../../payments/sender.ts'
import type { Wallet } from '../../payments/wallet.ts'
import type { StreamPool } from '../../protocols/streams.ts'
import { parsePrice } from '../../schema/amount.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { AgentStats } from '../../schema/standing.ts'
import type { BuyerChannels, LoadedChannel, StoredChannel } from '../../store/buyer-channels.ts'
import type { Order } from '../../store/order-row.ts'
import { channelPrice, type Terms } from '../guard.ts'
import type { WalletFunds } from '../wallet-checks.ts'
import { ChannelLine } from './channel-line.ts'
import { type ChannelNeed, obstacleTo } from './channel-only.ts'
import { lookAtDeposit } from './deposits.ts'
import { ChannelExits, CLOSED_READ_MS } from './exits.ts'
import type { MissingDeps } from './missing.ts'
import { type ChannelOptions, fits, noRpc, type Offer, usualDeposit } from './offer.ts'
import { PayeeCalls } from './payee-calls.ts'
import { type AskedDeposit, type CallPayer, type LockRules, placeDeposit } from './place-deposit.ts'
import { ChannelReadings } from './readings.ts'
import { mayComeBack } from './undone.ts'

/** Below this price a channel pays for itself at once. */
const CHEAP = parsePrice('0.01')
const LOOK_MS = 1_000
/** How long an offer that failed is left alone, and one that a call wants. */
const AGAIN_MS = 10 * 60 * 1000
const WANTED_AGAIN_MS = 60_000
/** A good record: so many calls, and so many of them successful. */
const RECORD = { calls: 5, share: 0.9 }

export type ChannelsDeps = {
  clock: Clock
  logger: Logger
  store: BuyerChannels
  wallet: Wallet
  streams: StreamPool
  callerDid: string
  /** Undefined: no RPC is configured. Then no channel is opened, because no deposit could be believed. */
  onChain:
    | (Pick<MissingDeps, 'takenOut'> & {
        chain: Pick<Chain, 'authorizationAt' | 'blockTimeMs'>
        reader: Pick<ChannelReader, 'channels'>
      })
    | undefined
  /** The only sender of this account. @throws CodedError CHAIN_UNAVAILABLE */
  sender(): Promise<Pick<Sender, 'send'>>
  funds?: WalletFunds | undefined
  trading?: Pick<Trading, 'check'> | undefined
  /** What the operator lets this node spend. Undefined in tests: anything. */
  budget?: { rules(): LockRules } | undefined
  /** What this node has seen of an agent. */
  stats(agentId: string): Pick<AgentStats, 'calls' | 'success_rate'>
  addrsOf(agentId: string): readonly string[]
}

/** The payment channels of this process, as a buyer. */
export interface Channels {
  /**
   * The channel that pays the next call. Undefined: the call is paid for by itself. Notes the call, which may open a channel.
   *
   * @param payer no money is locked for a call that this node would not pay, and no more than its token may spend
   * @param need undefined: the call can also be paid for by itself
   */
  lineFor(terms: Terms, wish: Order['channelWish'], payer?: CallPayer, need?: ChannelNeed): ChannelLine | undefined
  line(id: Hex): ChannelLine | undefined
  /** Why no channel will ever pay a call to this agent. Undefined: one pays it, or will. */
  obstacle(terms: Terms): string | undefined
  /** Why no deposit was made at this seller. Undefined: none failed lately. */
  failure(terms: Terms): string | undefined
  /** How much may be signed beyond the calls to this agent. */
  aheadOf(terms: Terms, price: bigint): bigint
  /** Goes on with the channels that this process has in the ledger. */
  load(): Promise<void>
  /** Opens a channel by hand. @throws CodedError */
  open(offer: Offer, amount: bigint | undefined): Promise<Hex>
  /** Stores a channel that this ledger does not know, and takes it up. @returns false if the ledger knows it */
  add(channel: StoredChannel): Promise<boolean>
  /** Takes money out of channels. Undefined without an RPC, by which it is seen where the money is. */
  readonly exits: Pick<ChannelExits, 'leave' | 'followed' | 'followAll'> | undefined
  readonly services: readonly Service[]
}

export function createChannels(options: ChannelOptions, deps: ChannelsDeps): Channels {
  return new ChannelBook(options, deps)
}

class ChannelBook implements Channels {
  readonly #options: ChannelOptions
  readonly #deps: ChannelsDeps
  readonly #signer: ChannelSigner
  readonly #lines = new Map<Hex, ChannelLine>()
  readonly #calls = new PayeeCalls()
  /** Sellers with a deposit under way, or that are left alone until then: why, and what a call would have cost. */
  readonly #busy = new Map<string, { until: number; failure?: { why: string; price: bigint } }>()
  readonly #readings: ChannelReadings | undefined
  readonly #looks: Periodic
  /** The deposits whose sellers are being asked. */
  readonly #asked = new Map<Hex, Promise<void>>()
  readonly #stopping = new AbortController()
  readonly exits: ChannelExits | undefined

  constructor(options: ChannelOptions, deps: ChannelsDeps) {
    this.#options = options
    this.#deps = deps
    this.#signer = deps.wallet.channelSigner('vouchers')
    const times = { firstMs: LOOK_MS, everyMs: LOOK_MS }
    const work = { work: () => this.#look(), onError: (err: unknown) => this.#noteFailure(err) }
    this.#looks = periodic({ name: 'payment channels', ...times }, work)
    const ours = { lines: () => this.#lines.values(), line: (id: Hex) => this.line(id) }
    this.#readings = deps.onChain && new ChannelReadings({ ...deps, ...deps.onChain })
    this.exits = deps.onChain && new ChannelExits(options, { ...deps, ...deps.onChain, ...ours })
  }

  get services(): readonly Service[] {
    const { name } = this.#looks
    const stop = async () => {
      // A seller that says nothing must not keep the node from stopping. The next start goes on with what is on disk.
      this.#stopping.abort()
      await this.#looks.stop()
      await Promise.all(this.#asked.values())
    }
    return [{ name, start: () => this.#looks.start(), stop }, ...(this.exits === undefined ? [] : [this.exits])]
  }

  lineFor(terms: Terms, wish: Order['channelWish'], payer?: CallPayer, need?: ChannelNeed): ChannelLine | undefined {
    const { mode, depositMax } = this.#options
    const isImported = terms.resource !== undefined && terms.resource !== terms.agentId
    if (mode === 'off' || wish === 'never' || terms.channel === undefined || isImported) return undefined
    const amount = channelPrice(terms)
    if (terms.listed.network !== this.#deps.wallet.asset.network) return undefined
    const offer = { ...terms, channel: terms.channel }
    const own = [...this.#lines.values()].filter((line) => line.isOpen && fits(line, offer))
    const best = own.reduce<ChannelLine | undefined>((a, b) => (a === undefined || b.free > a.free ? b : a), undefined)
    // A quarter is left.
    const isLow = best === undefined || best.free * 4n < usualDeposit(offer, depositMax)
    const isWanted = mode === 'always' || wish === 'always'
    const isUnderWay = best !== undefined && (best.deposit !== undefined || mayComeBack(best, this.#deps.clock.now()))
    const isDue = isLow && !isUnderWay
    if (isDue && need !== 'again') this.#calls.note(terms.listed.payTo, monotonicOf(this.#deps.clock))
    const reason = isDue ? this.#reasonFor(terms, { isKnown: isWanted || best !== undefined, need }) : undefined
    const by = isWanted || need !== undefined ? 'wish' : 'rule'
    if (reason !== undefined) this.#fund(offer, best, { by, reason, payer })
    return best !== undefined && best.free >= amount ? best : undefined
  }

  line(id: Hex): ChannelLine | undefined {
    return this.#lines.get(id)
  }

  obstacle(terms: Terms): string | undefined {
    return obstacleTo(terms, { ...this.#options, hasRpc: this.#deps.onChain !== undefined })
  }

  failure(terms: Terms): string | undefined {
    return this.#busyWith(terms)?.failure?.why
  }

  aheadOf({ agentId }: Terms, price: bigint): bigint {
    const { calls: made, success_rate: rate } = this.#deps.stats(agentId)
    const isGood = made >= RECORD.calls && rate !== null && rate >= RECORD.share
    return isGood ? price * BigInt(this.#options.aheadCalls) : 0n
  }

  async load(): Promise<void> {
    const { store, clock } = this.#deps
    for (const stored of await store.ofProcess(clock.now() - CLOSED_READ_MS)) this.#open(stored)
  }

  async open(offer: Offer, amount: bigint | undefined): Promise<Hex> {
    const { onChain } = this.#deps
    if (onChain === undefined) throw noRpc()
    return this.#deposit(offer, undefined, { by: 'hand', reason: 'known', amount })
  }

  async add(channel: StoredChannel): Promise<boolean> {
    const isNew = await this.#deps.store.putDeposit(channel, (all) => all.every(({ id }) => id !== channel.id))
    if (isNew) this.#open({ ...channel, inFlight: new Map() })
    return isNew
  }

  #open(stored: LoadedChannel): void {
    const { store, wallet } = this.#deps
    const { chainId, network } = wallet.asset
    // What lies on another network, or belongs to another wallet, is left alone until the node runs there, or with it.
    const isOurs = stored.network === network && sameAddress(stored.config.payer, wallet.address)
    if (this.#lines.has(stored.id) || !isOurs) return
    const stopped = (line: ChannelLine, why: string) => this.#noteStop(line, why)
    this.#lines.set(stored.id, new ChannelLine(stored, { store, signer: this.#signer, chainId, stopped }))
  }

  #noteStop({ id, sellerId }: ChannelLine, why: string): void {
    const { logger, store, clock } = this.#deps
    const ids = { channel_id: id, peer_id: sellerId }
    logger.error({ ...ids, reason: why }, 'a payment channel has stopped: it signs no more')
    Promise.resolve(store.stop(id, why, clock.now())).catch((err: unknown) => {
      logger.warn({ ...ids, err }, 'that a payment channel has stopped could not be stored')
    })
  }

  /** Why a channel to this payee is worth its transaction. Undefined: it is not. */
  #reasonFor(
    terms: Terms,
    { isKnown, need }: { isKnown: boolean; need: ChannelNeed | undefined },
  ): AskedDeposit['reason'] | undefined {
    if (isKnown) return 'known'
    if (need === undefined && this.#options.opensByRule === false) return undefined
    if (this.#calls.isFrequent(terms.listed.payTo, monotonicOf(this.#deps.clock))) return 'known'
    return need !== undefined || channelPrice(terms) < CHEAP ? 'stranger' : undefined
  }

  /** A deposit that was too much for a dearer call says nothing of this one. */
  #busyWith(terms: Terms) {
    const busy = this.#busy.get(terms.seller.peerId)
    return busy?.failure !== undefined && busy.failure.price > channelPrice(terms) ? undefined : busy
  }

  /** Opens a channel, or fills one up, beside the calls: nobody waits for a block. */
  #fund(offer: Offer, line: ChannelLine | undefined, asked: AskedDeposit): void {
    const { onChain, clock, logger } = this.#deps
    const { peerId } = offer.seller
    const now = monotonicOf(clock)
    if (onChain === undefined || (this.#busyWith(offer)?.until ?? Number.NEGATIVE_INFINITY) > now) return
    this.#busy.set(peerId, { until: now + AGAIN_MS })
    this.#deposit(offer, line, asked).catch((err: unknown) => {
      const waitMs = asked.by === 'wish' ? WANTED_AGAIN_MS : AGAIN_MS
      this.#busy.set(peerId, { until: now + waitMs, failure: { why: reasonOf(err), price: channelPrice(offer) } })
      logger.info({ peer_id: peerId, err }, 'no deposit was made into a payment channel')
    })
  }

  async #deposit(offer: Offer, line: ChannelLine | undefined, asked: AskedDeposit): Promise<Hex> {
    const { stored, deposit } = await placeDeposit(offer, { ...asked, line }, this.#options, this.#deps)
    faultPoint('buyer:deposit-stored')
    if (line === undefined) this.#open({ ...stored, inFlight: new Map() })
    else line.deposit = deposit
    this.#looks.soon()
    return stored.id
  }

  #noteFailure(err: unknown): void {
    this.#deps.logger.warn({ err }, 'payment channels could not be looked after')
  }

  async #look(): Promise<void> {
    const { onChain } = this.#deps
    if (onChain === undefined) return
    for (const { id, closedAt } of this.#lines.values()) {
      if (closedAt !== undefined && this.#deps.clock.now() - closedAt > CLOSED_READ_MS) this.#lines.delete(id)
    }
    await this.#readings?.refresh(() => this.#lines.values())
    for (const line of this.#lines.values()) {
      if (line.deposit === undefined || this.#asked.has(line.id)) continue
      // Each by itself: a seller that does not answer must hold neither the deposits at others nor this loop.
      const look = this.#lookAt(line, onChain).catch((err: unknown) => this.#noteFailure(err))
      this.#asked.set(
        line.id,
        look.finally(() => this.#asked.delete(line.id)),
      )
    }
  }

  async #lookAt(line: ChannelLine, onChain: NonNullable<ChannelsDeps['onChain']>): Promise<void> {
    const { store, clock, logger } = this.#deps
    const ids = { channel_id: line.id, peer_id: line.sellerId }
    const { signal: stopping } = this.#stopping
    const found = await lookAtDeposit(line, { ...this.#deps, ...onChain, stopping }).catch((err: unknown) => {
      logger.debug({ ...ids, err }, 'the chain does not show a deposit into a payment channel yet')
      return undefined
    })
    if (found === undefined) return
    const { hasLanded, ...seen } = found
    await store.depositEnded(line.id, seen, clock.now())
    line.deposit = undefined
    line.moved = seen.moved
    line.seen(seen.onChain)
    if (hasLanded) this.#busy.delete(line.sellerId)
    logger.info(ids, hasLanded ? 'a deposit into a payment channel has landed' : 'a deposit never reached the chain')
  }
}
