import { generatePrivateKey } from 'viem/accounts'
import { NETWORK } from '../../devnet/chain.ts'
import { addresses } from '../../devnet/contracts.ts'
import type { Devnet } from '../../devnet/devnet.ts'
import { createChannelReader } from '../../src/chain/batch-settlement.ts'
import { type Chain, createChain } from '../../src/chain/chain.ts'
import { type Clock, systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { assets } from '../../src/payments/assets.ts'
import { createChannelDeposits } from '../../src/payments/channels/channel-deposits.ts'
import { ChannelKeeper } from '../../src/payments/channels/channel-keeper.ts'
import { createChannelRefunds } from '../../src/payments/channels/channel-refunds.ts'
import { createChannelRelay } from '../../src/payments/channels/channel-relay.ts'
import { openAtSeller, type SellerChannel, takeCount, takeVoucher } from '../../src/payments/channels/seller-channel.ts'
import { createFacilitator } from '../../src/payments/facilitator.ts'
import { Sender } from '../../src/payments/sender.ts'
import { signVoucher } from '../../src/payments/voucher.ts'
import { createWallet } from '../../src/payments/wallet.ts'
import type { ChannelConfig } from '../../src/schema/channel.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createTransactions } from '../../src/store/transactions.ts'
import { type FaultyFacilitator, startFaultyFacilitator } from './faulty-facilitator.ts'
import { TestChannels } from './test-channels.ts'
import type { TestKept } from './test-kept.ts'

const never = new AbortController().signal
export const CHANNEL_ASSET = assets[NETWORK]

/** The part of a seller that sends to the contract of payment channels, with a facilitator that fails as it is told. */
export class ChannelSeller {
  readonly devnet: Devnet
  readonly wallet = createWallet(generatePrivateKey(), CHANNEL_ASSET)
  readonly authorizer = this.wallet.channelSigner('claims')
  readonly chain: Chain
  readonly reader: ReturnType<typeof createChannelReader>
  readonly channels: TestChannels
  readonly terms
  facilitator!: FaultyFacilitator
  /** The warnings and errors of the keeper. */
  readonly log: string[] = []
  /** Waits of the relay, in milliseconds. */
  readonly waits = { shownMs: 1_500, facilitatorMs: 3_000 }
  readonly #closing: (() => Promise<unknown>)[] = []

  constructor(devnet: Devnet, rpcUrl = devnet.rpcUrl) {
    this.devnet = devnet
    const options = { network: NETWORK, asset: addresses.usdc, rpcUrl, timeoutMs: 30_000 } as const
    this.chain = createChain(options, { logger: silentLogger })
    this.reader = createChannelReader(this.chain)
    this.channels = new TestChannels(devnet.chain)
    const parties = { receiver: this.wallet.address, receiverAuthorizer: this.authorizer.address }
    this.terms = { ...parties, token: addresses.usdc, withdrawDelaySecondsMin: 900 }
  }

  async start(): Promise<this> {
    await this.channels.start()
    this.facilitator = await startFaultyFacilitator(this.devnet.facilitatorUrl)
    this.#closing.push(() => this.facilitator.stop())
    return this
  }

  async stop(): Promise<void> {
    for (const close of this.#closing.splice(0).reverse()) await close()
  }

  /** Gives the seller's account ETH, so that it can send transactions of its own. */
  async giveGas(): Promise<void> {
    await this.devnet.chain.fundGas(this.wallet.address)
  }

  relay(facilitatorUrls: readonly string[] = [this.facilitator.url]) {
    const opened = facilitatorUrls.map((url) => createFacilitator({ url }))
    const database = openDatabase({ path: ':memory:' })
    this.#closing.push(() => database.close(), ...opened.map((one) => () => one.close()))
    const sender = new Sender({
      ...{ chain: this.chain, wallet: this.wallet, transactions: createTransactions(database), clock: systemClock },
      ...{ tokenIn: () => undefined, waitMs: 5_000, pollMs: 20 },
    })
    return createChannelRelay({
      ...{ asset: CHANNEL_ASSET, clock: systemClock, chain: this.chain, waits: this.waits },
      facilitators: opened.flatMap(({ channels = [] }) => channels),
      own: { address: this.wallet.address, sender: async () => sender },
    })
  }

  deposits({ relay = this.relay(), depth = 0, depositMin = 100n } = {}) {
    const deposits = createChannelDeposits({
      ...{ asset: CHANNEL_ASSET, clock: systemClock, chain: this.chain, reader: this.reader, relay },
      ...{ terms: this.terms, depositMin, depth },
      waits: { attempts: { firstMs: 20, mostMs: 50 }, buriedMs: 3_000 },
    })
    this.#closing.push(async () => deposits.stop())
    return deposits
  }

  /** A new channel to this seller. */
  config(changes: Partial<ChannelConfig> = {}): ChannelConfig {
    const { receiver, receiverAuthorizer } = this.terms
    return this.channels.config({ receiver, receiverAuthorizer, ...changes })
  }

  keeper(
    kept: TestKept,
    {
      relay = this.relay(),
      isKeeper = true,
      claimThreshold = 1_000_000n,
      clock = systemClock,
      readEveryMs = 60_000,
      lagMaxMs = Number.POSITIVE_INFINITY,
    }: {
      relay?: ReturnType<typeof createChannelRelay>
      isKeeper?: boolean
      claimThreshold?: bigint
      clock?: Clock
      readEveryMs?: number
      lagMaxMs?: number
    } = {},
  ) {
    const { chain, reader, authorizer } = this
    const note = (_fields: object, message: string) => void this.log.push(message)
    const logger = { ...silentLogger, warn: note, error: note }
    const common = { clock, logger, chain, reader, relay, kept, authorizer }
    const chainId = CHANNEL_ASSET.chainId
    const refunds = createChannelRefunds({ ...common, chainId })
    const keeper = new ChannelKeeper(
      { claimThreshold, readEveryMs, lagMaxMs, stopMs: 5_000 },
      {
        ...{ ...common, chainId, refunds, receiver: this.wallet.address, token: addresses.usdc },
        isKeeper: async () => isKeeper,
      },
    )
    return { keeper, refunds, turn: (when: Parameters<ChannelKeeper['turn']>[0] = 'watch') => keeper.turn(when, never) }
  }

  /** A channel with a deposit, whose seller has charged something under a voucher for more. */
  async owing(
    charged: bigint,
    { deposit = 100_000n, signer = this.channels.session, changes = {} as Partial<ChannelConfig> } = {},
  ) {
    const config = await this.channels.open(deposit, this.config(changes))
    const channel = openAtSeller(this.channels.id(config), config, await this.channels.state(config))
    return this.charge(channel, charged, signer)
  }

  /** More calls on a channel: their charges, and a voucher that covers a little more. */
  charge(channel: SellerChannel, charged: bigint, signer = this.channels.session): SellerChannel {
    const voucher = this.voucher(channel.config, charged + 50n, signer)
    return takeCount(takeVoucher(channel, voucher), { total: charged, seq: channel.seq + 1 })
  }

  async claimed({ config }: Pick<SellerChannel, 'config'>): Promise<bigint> {
    return (await this.channels.state(config)).totalClaimed
  }

  voucher(config: ChannelConfig, maxClaimableAmount: bigint, signer = this.channels.session) {
    const voucher = { channelId: this.channels.id(config), maxClaimableAmount }
    return signVoucher(voucher, signer.key, CHANNEL_ASSET.chainId)
  }

  /** A deposit as a buyer sends it to the seller. */
  request(config: ChannelConfig, amount: bigint, window: Parameters<TestChannels['signedDeposit']>[2] = {}) {
    const { authorization } = this.channels.signedDeposit(config, amount, window)
    return { config, voucher: this.voucher(config, amount), deposit: { amount, authorization } }
  }
}
