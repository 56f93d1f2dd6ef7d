import { monotonicOf } from '../../lib/clock.ts'
import { type CodedError, reasonOf } from '../../lib/errors.ts'
import { faultPoint } from '../../lib/fault-point.ts'
import type { Service } from '../../lib/lifecycle.ts'
import { type Periodic, periodic } from '../../lib/periodic.ts'
import { MarketError } from '../../listings/market-error.ts'
import { sameAddress } from '../../payments/assets.ts'
import { owedAtMost } from '../../payments/channels/buyer-channel.ts'
import type { ChannelSigner } from '../../payments/channels/channel-keys.ts'
import { TRANSACTION_COST } from '../../payments/transaction-cost.ts'
import { parsePrice } from '../../schema/amount.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { LoadedChannel, StoredChannel } from '../../store/buyer-channels.ts'
import type { Order } from '../../store/order-row.ts'
import { channelPrice, type Terms } from '../guard.ts'
import { ChannelLine } from './channel-line.ts'
import { type ChannelNeed, obstacleTo } from './channel-only.ts'
import type { ChannelsDeps } from './channels-deps.ts'
import { DepositTries } from './deposit-tries.ts'
import { lockedIn, lookAtDeposit } from './deposits.ts'
import { ChannelExits, CLOSED_READ_MS } from './exits.ts'
import { type ChannelOptions, fillUp, fits, lowMark, noRpc, type Offer, usualDeposit } from './offer.ts'
import { PayeeCalls } from './payee-calls.ts'
import { type AskedDeposit, type CallPayer, placeDeposit } from './place-deposit.ts'
import { ChannelReadings } from './readings.ts'
import { Spending } from './spending.ts'
import { mayComeBack } from './undone.ts'

/** Below this price a channel pays for itself at once. */
const CHEAP = parsePrice('0.01')
const LOOK_MS = 1_000
/** A good record: so many calls, and so many of them successful. */
const RECORD = { calls: 5, share: 0.9 }

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
  /**
   * True while a call should wait for the deposit that is on its way: a transaction costs more than the call, and calls to this
   * payee are frequent, or have used a channel up. Ends two minutes after the first deposit that has not landed was begun.
   */
  isAwaited(terms: Terms, wish: Order['channelWish']): boolean
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
  readonly #tries = new DepositTries()
  readonly #spending = new Spending()
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
    const offer = this.#offerOf(terms, wish)
    if (offer === undefined) return undefined
    const { mode, depositMax } = this.#options
    const now = monotonicOf(this.#deps.clock)
    const own = [...this.#lines.values()].filter((line) => line.isOpen && fits(line, offer))
    const best = own.reduce<ChannelLine | undefined>((a, b) => (a === undefined || b.free > a.free ? b : a), undefined)
    const paidLately = best && this.#spending.lately(best.id, owedAtMost(best.channel), now)
    const isLow = best === undefined || best.free < lowMark(offer, { depositMax, paidLately: paidLately ?? 0n })
    if (isLow && (need === undefined || need === 'first')) this.#calls.note(terms.listed.payTo, now)
    const isNeeded = need === 'first' || need === 'again'
    const isWanted = mode === 'always' || wish === 'always'
    const isDue = isLow && (best === undefined || this.#canFillUp(best, offer))
    const reason = isDue ? this.#reasonFor(terms, { isKnown: isWanted || best !== undefined, isNeeded }) : undefined
    const by = isWanted || isNeeded ? 'wish' : 'rule'
    if (reason !== undefined) this.#fund(offer, best, { by, reason, payer, ...(paidLately && { paidLately }) })
    return best !== undefined && best.free >= channelPrice(terms) ? best : undefined
  }

  line(id: Hex): ChannelLine | undefined {
    return this.#lines.get(id)
  }

  obstacle(terms: Terms): string | undefined {
    return obstacleTo(terms, { ...this.#options, hasRpc: this.#deps.onChain !== undefined })
  }

  failure(terms: Terms): string | undefined {
    return this.#tries.failure(terms.seller.peerId, channelPrice(terms))
  }

  isAwaited(terms: Terms, wish: Order['channelWish']): boolean {
    const now = monotonicOf(this.#deps.clock)
    const { seller, listed } = terms
    const offer = this.#offerOf(terms, wish)
    if (offer === undefined || channelPrice(terms) >= TRANSACTION_COST) return false
    const isUsedUp = [...this.#lines.values()].some((line) => fits(line, offer) && line.channel.onChain.balance > 0n)
    if (!isUsedUp && !this.#calls.isFrequent(listed.payTo, now)) return false
    const awaited = this.#tries.awaited(seller.peerId, now)
    if (awaited?.isFirst === true) {
      const text = 'calls wait for a deposit into a payment channel, because each costs less than a transaction'
      this.#deps.logger.info({ peer_id: seller.peerId }, text)
    }
    return awaited !== undefined
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
    { isKnown, isNeeded }: { isKnown: boolean; isNeeded: boolean },
  ): AskedDeposit['reason'] | undefined {
    if (isKnown) return 'known'
    if (!isNeeded && this.#options.opensByRule === false) return undefined
    if (this.#calls.isFrequent(terms.listed.payTo, monotonicOf(this.#deps.clock))) return 'known'
    return isNeeded || channelPrice(terms) < CHEAP ? 'stranger' : undefined
  }

  /** What channels of this node can pay. Undefined: none can pay this call, or the call wants none. */
  #offerOf(terms: Terms, wish: Order['channelWish']): Offer | undefined {
    const isImported = terms.resource !== undefined && terms.resource !== terms.agentId
    const { channel } = terms
    if (this.#options.mode === 'off' || wish === 'never' || channel === undefined || isImported) return undefined
    return terms.listed.network === this.#deps.wallet.asset.network ? { ...terms, channel } : undefined
  }

  /**
   * False while a deposit is under way, or where another one would be more than may lie at this seller. For a call that the
   * channel does not pay it is tried all the same, which says why.
   */
  #canFillUp(line: ChannelLine, offer: Offer): boolean {
    const { depositMax } = this.#options
    if (line.deposit !== undefined || mayComeBack(line, this.#deps.clock.now())) return false
    if (line.free < channelPrice(offer)) return true
    const here = [...this.#lines.values()].filter(({ sellerId }) => sellerId === line.sellerId)
    const states = here.map(({ channel, network, moved, deposit }) => ({ ...channel, network, moved, deposit }))
    const room = depositMax - lockedIn(states, line.network)
    return fillUp(offer, usualDeposit(offer, depositMax), room) <= room
  }

  /** Opens a channel, or fills one up, beside the calls. */
  #fund(offer: Offer, line: ChannelLine | undefined, asked: AskedDeposit): void {
    const { onChain, clock, logger } = this.#deps
    const { peerId } = offer.seller
    const price = channelPrice(offer)
    if (onChain === undefined || this.#tries.isHeld(peerId, price, monotonicOf(clock))) return
    this.#tries.begin(peerId, monotonicOf(clock))
    this.#deposit(offer, line, asked).catch((err: unknown) => {
      const { code } = err as Partial<CodedError<string>>
      const passes = !(err instanceof MarketError) && code !== 'INVALID_REQUEST'
      const { isKnown } = this.#tries.failed(peerId, { why: reasonOf(err), price, passes }, monotonicOf(clock))
      logger[isKnown ? 'debug' : 'info']({ peer_id: peerId, err }, 'no deposit was made into a payment channel')
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

  #forget(id: Hex): void {
    this.#lines.delete(id)
    this.#spending.forget(id)
  }

  #noteFailure(err: unknown): void {
    this.#deps.logger.warn({ err }, 'payment channels could not be looked after')
  }

  async #look(): Promise<void> {
    const { onChain } = this.#deps
    if (onChain === undefined) return
    for (const { id, closedAt } of this.#lines.values()) {
      if (closedAt !== undefined && this.#deps.clock.now() - closedAt > CLOSED_READ_MS) this.#forget(id)
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
    if (hasLanded) this.#tries.landed(line.sellerId)
    logger.info(ids, hasLanded ? 'a deposit into a payment channel has landed' : 'a deposit never reached the chain')
  }
}
