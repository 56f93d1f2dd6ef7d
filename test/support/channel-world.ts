import { generatePrivateKey } from 'viem/accounts'
import { expect } from 'vitest'
import type { Devnet } from '../../devnet/devnet.ts'
import { createChannels } from '../../src/buying/channels/channels.ts'
import { lockedIn } from '../../src/buying/channels/deposits.ts'
import { batchSettlementAddress, channelCalls } from '../../src/chain/batch-settlement.ts'
import { findTakenOut } from '../../src/chain/channel-outflow.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { NodeStopping } from '../../src/listings/market-error.ts'
import { createChannelFunds } from '../../src/node/channel-funds.ts'
import { createChannelDeposits } from '../../src/payments/channels/channel-deposits.ts'
import { ChannelKeeper } from '../../src/payments/channels/channel-keeper.ts'
import { createChannelRefunds } from '../../src/payments/channels/channel-refunds.ts'
import type { ChannelRelay } from '../../src/payments/channels/channel-relay.ts'
import { createWallet } from '../../src/payments/wallet.ts'
import type { ChannelConfig } from '../../src/schema/channel.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { createBuyerChannels } from '../../src/store/buyer-channels.ts'
import { all } from '../../src/store/query.ts'
import { CHANNEL_ASSET, type ChannelSeller } from './channel-seller.ts'
import { HandClock } from './hand-clock.ts'
import { sellerWallet } from './payments.ts'
import { TestBuyer } from './test-buyer.ts'
import { accountOf, TestChannels } from './test-channels.ts'
import { until } from './until.ts'
import { TestSeller } from './x402-seller.ts'

export const WORLD_PRICE = 9_000n
const DELAY_SECONDS = 900
/** Never read. The tests move the chain by themselves. */
const never = new AbortController().signal

const noSender = () => Promise.reject(new Error('this test withdraws by itself'))

type Kind = 'good' | 'fail' | 'slow'
type Stream = Awaited<ReturnType<TestSeller['open']>>

/**
 * A buyer and a seller of this node over streams in memory, with the contract of payment channels on a real chain. Both
 * can end at any moment, connections are lost, and clocks and the chain jump.
 */
export class ChannelWorld {
  readonly #parts: ChannelSeller
  readonly #relay: ChannelRelay
  readonly #payer = accountOf(generatePrivateKey())
  readonly #wallet
  readonly clocks = { buyer: new HandClock(Date.now()), seller: new HandClock(Date.now()) }
  seller!: TestSeller
  buyer!: TestBuyer
  #keeper!: ChannelKeeper
  #endBuyer: () => Promise<void> = async () => {}
  #streams: Stream[] = []
  #slow: (() => void)[] = []
  #snapshot: Hex | undefined
  #made = 0
  /** Quick calls whose callers wait. */
  readonly #open = new Set<string>()

  constructor(parts: ChannelSeller, relay: ChannelRelay) {
    this.#parts = parts
    this.#relay = relay
    this.#wallet = createWallet(`0x${Buffer.from(this.#payer.key).toString('hex')}`, CHANNEL_ASSET)
  }

  get #chain(): Devnet['chain'] {
    return this.#parts.devnet.chain
  }

  /** @param options `snapshot`: `reorganize` takes back the deposit of the first call too */
  async start({ snapshot = false } = {}): Promise<this> {
    // Worlds before this one have moved the time of the chain.
    const { timestamp } = await this.#chain.client.getBlock()
    for (const clock of Object.values(this.clocks)) clock.set(Number(timestamp) * 1000)
    await this.#chain.fundGas(this.#payer.address)
    await this.#chain.mint(this.#payer.address, 100_000_000n)
    if (snapshot) await this.snapshot()
    await this.#startSeller()
    await this.#startBuyer()
    // A first call opens the channel.
    await this.buyer.execute({ input: 'good first' })
    await until(async () => {
      const [channel] = await this.#bought()
      return channel !== undefined && channel.deposit === undefined && channel.onChain.balance > 0n
    })
    return this
  }

  async stop(): Promise<void> {
    for (const end of this.#slow.splice(0)) end()
    await this.#endBuyer()
    await this.seller.stop()
  }

  async #startSeller(): Promise<void> {
    const { chain, reader } = this.#parts
    const clock = this.clocks.seller
    const parties = { receiver: sellerWallet.address, receiverAuthorizer: sellerWallet.channelSigner('claims').address }
    const terms = { ...parties, token: CHANNEL_ASSET.address, withdrawDelaySecondsMin: DELAY_SECONDS }
    const common = { clock, logger: silentLogger, chain, reader, relay: this.#relay }
    const deposits = createChannelDeposits({ ...common, asset: CHANNEL_ASSET, terms, depositMin: 1n, depth: 0 })
    const seller: TestSeller = new TestSeller({
      ...(this.seller && { database: this.seller.database }),
      clock,
      channels: {
        ...{ reader, withdrawDelaySecondsMin: DELAY_SECONDS },
        funds: {
          deposit: (asked, signal) => funds.deposit(asked, signal),
          refund: (asked, signal) => funds.refund(asked, signal),
        },
      },
    })
    const kept = seller.deps.channels!
    const authorizer = sellerWallet.channelSigner('claims')
    const { chainId } = CHANNEL_ASSET
    const refunds = createChannelRefunds({ ...common, kept, chainId, authorizer })
    const funds = createChannelFunds({ ...common, store: seller.records.sellerChannels, kept, deposits, refunds })
    seller.addAgent({ amount: WORLD_PRICE })
    seller.work = async ({ input }) => {
      if (input.startsWith('fail')) throw new Error('the agent failed')
      if (input.startsWith('slow')) await new Promise<void>((resolve) => void this.#slow.push(resolve))
      return `re: ${input}`
    }
    this.seller = await seller.start()
    const { receiver } = parties
    this.#keeper = new ChannelKeeper(
      { claimThreshold: 5n * WORLD_PRICE, lagMaxMs: Number.POSITIVE_INFINITY },
      {
        ...common,
        refunds,
        kept,
        chainId,
        receiver,
        token: CHANNEL_ASSET.address,
        authorizer,
        isKeeper: async () => true,
      },
    )
    await this.#keeper.turn('start', never)
  }

  async #startBuyer(): Promise<void> {
    const before = this.buyer
    const clock = this.clocks.buyer
    const wallet = this.#wallet
    const ending = new AbortController()
    const database = before?.database
    const buyer = new TestBuyer({
      open: () => this.#stream(),
      clock,
      wallet,
      dailyBudget: 10n ** 9n,
      ...(database && { database }),
    })
    const store = createBuyerChannels(buyer.database)
    const channels = createChannels(
      { mode: 'auto', aheadCalls: 3, depositMax: 1_000_000n, idleMs: Number.POSITIVE_INFINITY },
      {
        ...{
          clock,
          logger: silentLogger,
          store,
          wallet,
          streams: buyer.streams,
          callerDid: 'did:buyer',
          sender: noSender,
          addrsOf: () => [],
        },
        ...{
          stats: () => ({ calls: 100, success_rate: 1 }),
          onChain: {
            reader: this.#parts.reader,
            chain: this.#parts.chain,
            takenOut: (asked, signal) => findTakenOut(asked, this.#parts.chain, signal),
          },
        },
      },
    )
    buyer.deps.channels = channels
    const receiver_authorizer = sellerWallet.channelSigner('claims').address
    const channel = { receiver_authorizer, withdraw_delay: DELAY_SECONDS, min_deposit: 20n * WORLD_PRICE }
    buyer.list({ price: WORLD_PRICE, price_atomic: WORLD_PRICE.toString(), channel })
    const { execute } = buyer
    buyer.execute = (request) => execute.call(buyer, { cancel: ending.signal, ...request })
    this.buyer = buyer
    for (const service of channels.services) await service.start()
    await buyer.recovery.start()
    this.#endBuyer = async () => {
      ending.abort(new NodeStopping())
      for (const service of channels.services) await service.stop()
      await buyer.recovery.stop()
    }
  }

  async #stream(): Promise<Stream> {
    const stream = await this.seller.open('buyer')
    this.#streams.push(stream)
    return stream
  }

  call(kind: Kind): void {
    const input = `${kind} ${this.#made++}`
    if (kind !== 'slow') this.#open.add(input)
    const ended = () => void this.#open.delete(input)
    this.buyer.execute({ input, signal: AbortSignal.timeout(60_000) }).then(ended, ended)
  }

  /** Waits until quick calls have ended. A slow one may hold them up. */
  async quickCalls(): Promise<void> {
    await until(() => this.#open.size === 0, { timeoutMs: 2_000 }).catch(() => {})
  }

  /** Lets the oldest slow run end. */
  release(): void {
    this.#slow.shift()?.()
  }

  loseConnections(): void {
    for (const stream of this.#streams.splice(0)) stream.abort(new Error('the connection is lost'))
    for (const stream of this.seller.inbound.splice(0)) stream.abort(new Error('the connection is lost'))
  }

  /** The seller dies, whatever it was doing. What runs ends for nobody. */
  async killSeller(): Promise<void> {
    this.loseConnections()
    this.#slow = []
    await this.#startSeller()
  }

  /** The buyer dies: no result of its calls is stored any more. */
  async killBuyer(): Promise<void> {
    const { purchases } = this.buyer
    this.buyer.deps.purchases = { ...purchases, finish: () => new Promise(() => {}) }
    this.loseConnections()
    await this.#endBuyer()
    this.#open.clear()
    await this.#startBuyer()
  }

  keeperTurn = () => this.#keeper.turn('watch', never)

  async withdraw(part: number): Promise<void> {
    const [channel] = await this.#bought()
    const { balance, totalClaimed } = await this.#parts.channels.state(channel!.config)
    const amount = ((balance - totalClaimed) * BigInt(part)) / 10n
    await this.#send((config) => channelCalls.initiateWithdraw(config, amount))
  }

  async finalize(): Promise<void> {
    await this.#parts.channels.wait(DELAY_SECONDS + 1)
    await this.#send((config) => channelCalls.finalizeWithdraw(config))
  }

  /** The payer sends a deposit by itself. */
  async topUp(amount: bigint): Promise<void> {
    const payer = new TestChannels(this.#chain, this.#payer)
    await this.#send((config) => payer.depositCall(config, amount))
  }

  async refund(): Promise<void> {
    const [channel] = await this.#bought()
    const payment = { config: channel!.config, ...this.buyer.deps.channels!.line(channel!.id)!.forFunds() }
    await this.seller.deps.channelFunds!.refund(
      { peerId: 'buyer', channelId: channel!.id, payment },
      AbortSignal.timeout(20_000),
    )
  }

  async snapshot(): Promise<void> {
    this.#snapshot = await this.#chain.client.snapshot()
  }

  /** A reorganization takes back what has happened since the snapshot. */
  async reorganize(): Promise<void> {
    if (this.#snapshot === undefined) return
    await this.#chain.client.revert({ id: this.#snapshot })
    this.#snapshot = undefined
  }

  async #send(data: (config: ChannelConfig) => Hex): Promise<void> {
    const [channel] = await this.#bought()
    await this.#parts.channels.send(this.#payer, data(channel!.config))
  }

  async #lines() {
    return (await this.#bought()).flatMap(({ id }) => this.buyer.deps.channels!.line(id) ?? [])
  }

  /** What the buyer has put in and has not seen leave, what its node last read in its channel, and whether it sends a deposit. */
  async held(): Promise<{ locked: bigint; shown: bigint; sends: boolean }> {
    const channel = (await this.#bought())[0]!
    const locked = lockedIn([channel], CHANNEL_ASSET.network)
    return { locked, shown: channel.onChain.balance, sends: channel.deposit !== undefined }
  }

  /** What lies in the contract. */
  escrow = () => this.#chain.balanceOf(batchSettlementAddress)

  /** Lets time pass for all, and on the chain. */
  async pass(ms: number): Promise<void> {
    for (const clock of Object.values(this.clocks)) clock.advance(ms)
    await this.#parts.channels.wait(Math.ceil(ms / 1000))
  }

  #bought = () => createBuyerChannels(this.buyer.database).list()

  /** Waits until no call is open any more, while time passes. */
  async rest(): Promise<void> {
    const open = async () => {
      for (const end of this.#slow.splice(0)) end()
      for (const clock of Object.values(this.clocks)) clock.advance(500)
      const orders = await this.buyer.ledger()
      return orders.filter(({ order, reservation }) => {
        // What is paid without a channel waits for a chain that this buyer does not ask about it.
        const isExact = reservation !== undefined && reservation.channel === undefined
        return !isExact && (order.status === 'executing' || reservation?.state === 'reserved')
      })
    }
    await until(async () => (await open()).length === 0, { timeoutMs: 60_000, everyMs: 50 }).catch(async () => {
      const stuck = (await open()).map(({ order, reservation }) => [
        order.status,
        order.task,
        reservation?.state,
        reservation?.channel,
      ])
      throw new Error(`calls come to no end: ${JSON.stringify(stuck)}`)
    })
    for (const line of await this.#lines()) expect(line.channel.inFlight.size).toBe(0)
  }

  /** What both books, the chain and the deliveries say of the channels of this buyer. */
  async sums() {
    const sold = (await this.seller.records.sellerChannels.list(CHANNEL_ASSET.network)).map(({ channel }) => channel)
    const payments = await this.seller.database.query(
      all<{ amount: number; channel: Uint8Array; state: string; output: string | null }>(
        `SELECT p.amount, p.channel, p.state, e.output FROM payments p LEFT JOIN exchanges e ON e.id = p.exchange_id
         WHERE p.channel IS NOT NULL`,
      ),
    )
    const orders = await this.buyer.ledger()
    return Promise.all(
      (await this.#bought()).map(async (bought) => {
        const seller = sold.find(({ id }) => id === bought.id)
        const own = payments.filter(({ channel }) => `0x${Buffer.from(channel).toString('hex')}` === bought.id)
        const settled = own.filter(({ state }) => state === 'settled')
        const spent = orders.filter(
          ({ reservation }) => reservation?.channel === bought.id && reservation.state === 'spent',
        )
        return {
          ...{ charged: seller?.charged ?? 0n, ceiling: seller?.best?.maxClaimableAmount ?? 0n, mark: bought.mark },
          booked: settled.reduce((sum, { amount }) => sum + BigInt(amount), 0n),
          isDelivered: settled.every(({ output }) => output?.startsWith('re: ') === true),
          ...{ counted: bought.charged, stopped: bought.stopped },
          spent: spent.reduce((sum, { reservation }) => sum + reservation!.amount, 0n),
          spentFor: spent.map(({ order }) => order.output),
          chain: await this.#parts.channels.state(bought.config),
        }
      }),
    )
  }
}
