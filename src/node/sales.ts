import type { ChannelReader } from '../chain/batch-settlement.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Tail } from '../ledger/tail.ts'
import { BoundedMap } from '../lib/bounded-map.ts'
import type { Service } from '../lib/lifecycle.ts'
import { blockedParties, type IsBlocked } from '../payments/blocked.ts'
import type { ChallengeSeal } from '../payments/challenge-seal.ts'
import { Challenges } from '../payments/challenges.ts'
import type { ChannelFunds } from '../payments/channels/channel-funds.ts'
import { SellerChannels } from '../payments/channels/seller-channels.ts'
import { Exposure, type ExposureDeps, type ExposureOptions } from '../payments/exposure.ts'
import { createReceiptSigner } from '../payments/receipt-signer.ts'
import { Settler } from '../payments/settler.ts'
import { Unrun } from '../payments/unrun.ts'
import type { Wallet } from '../payments/wallet.ts'
import { PeerLimits, type PeerLimitsOptions } from '../protocols/peer-limits.ts'
import { createProtocolServer, type HandleStreams } from '../protocols/serve.ts'
import type { X402ServerDeps } from '../protocols/x402/exchange.ts'
import { Reruns } from '../protocols/x402/reruns.ts'
import { SettledWork } from '../protocols/x402/settled-work.ts'
import { isDoorCaller } from '../schema/door.ts'
import type { Hex } from '../schema/primitives.ts'

/** How long streamed output waits for a higher ceiling. */
const VOUCHER_WAIT_MS = 10_000
/** Payers remembered that stopped paying during a call. Beyond it the oldest is forgotten. */
const WITHHELD_MAX = 1_000

type SalesOptions = Pick<X402ServerDeps, 'payTo' | 'sellerDid' | 'settleFirst'> & {
  exposure: ExposureOptions
  /** Accounts that cannot pay and peers that are not served. */
  blocked?: readonly string[] | undefined
  limits: PeerLimitsOptions
  /** How long calls under way may go on when the node stops. */
  drainMs: number
  settler?: ConstructorParameters<typeof Settler>[0]
  /** How long streamed output waits for a higher ceiling, in ms. */
  voucherWaitMs?: number | undefined
}

type Settling = ConstructorParameters<typeof Settler>[1]

type SalesDeps = Pick<X402ServerDeps, 'clock' | 'logger' | 'asset' | 'didOf' | 'agents' | 'slots'> &
  Pick<Settling, 'facilitator' | 'chain' | 'chance'> & {
    /** Its account is paid, and signs the receipts. */
    wallet: Wallet
    ledger: Pick<Ledger, 'payments' | 'exchanges' | 'deferred' | 'sellerChannels' | 'listen'>
    /** Reads what payers hold. */
    funds: ExposureDeps['chain']
    seal: ChallengeSeal
    /** Undefined: this node takes no payment channels. */
    channels?: ChannelParts | undefined
    noteCall?(): void
    /** Other processes of this seller that sell an agent. Default: there are none. */
    sellersOf?(agentId: string): readonly string[]
    /** What they change in the ledger. */
    tail?: Pick<Tail, 'listen'>
    handle: HandleStreams
  }

export type ChannelParts = {
  reader: Pick<ChannelReader, 'channels'>
  withdrawDelaySecondsMin: number
  /** False: only channels that are in the ledger. Undefined: new ones too. */
  takesNew?(): boolean
  funds?: ChannelFunds | undefined
}

/** Sells runs of agents to peers, and settles what they paid. */
export function createSales(
  { exposure: exposureOptions, blocked = [], limits, drainMs, settler: settlerOptions = {}, ...options }: SalesOptions,
  deps: SalesDeps,
): {
  x402: X402ServerDeps
  exposure: Service
  settler: Service & Settler
  unrun: Service
  /** Undefined: this node takes no payment channels. */
  channels: SellerChannels | undefined
  settledWork: SettledWork
  protocols: Service
} {
  const { clock, logger, asset, wallet, didOf, agents, slots, ledger, facilitator, chain, chance } = deps
  const { payments, exchanges, deferred } = ledger
  const exposure = new Exposure(exposureOptions, { clock, logger, payments, chain: deps.funds })
  ledger.listen((change) => exposure.changed(change))
  const { sellersOf = () => [] } = deps
  // Work that is paid for is given to a process that sells its agent.
  const isOffered = (id: string) => agents.tokenOf(id) !== undefined || sellersOf(id).length > 0
  const settler = new Settler(settlerOptions, { clock, logger, payments, facilitator, chain, chance, isOffered })
  const unrun = new Unrun({ clock, logger, payments })
  const isBlocked = blockedParties(blocked)
  const peerLimits = new PeerLimits(limits, deps)
  const channels = deps.channels && createChannels({ ...deps.channels, isBlocked, peerLimits }, deps)
  const x402: X402ServerDeps = {
    ...{ ...options, clock, logger, asset, didOf, agents, slots },
    receiptSigner: createReceiptSigner(wallet),
    ...{ payments, exchanges, deferred, settler, unrun, exposure, isBlocked },
    ...{ limits: peerLimits, channels, channelFunds: deps.channels?.funds },
    challenges: new Challenges({ seal: deps.seal, offered: () => agents.offered() }),
    reruns: new Reruns({ clock, logger, payments }),
    running: new Map(),
    growth: {
      calls: new Map(),
      waitMs: options.voucherWaitMs ?? VOUCHER_WAIT_MS,
      withheld: new BoundedMap(WITHHELD_MAX),
    },
    wrappedRuns: new Map(),
  }
  const nameOf = (caller: string) => (isDoorCaller(caller) ? caller : didOf(caller))
  const settledWork = new SettledWork({ ...x402, didOf: nameOf, sellersOf, chance })
  ledger.listen((change) => settledWork.changed(change))
  // Another process has given its work to this one, or asks for a payment channel.
  deps.tail?.listen({
    changed({ record, id }) {
      if (record === 'run') settledWork.wake()
      if (record === 'channel') channels?.wanted(id as Hex)
    },
    missed: () => settledWork.wake(),
  })
  return {
    x402,
    exposure,
    settler,
    unrun,
    channels,
    settledWork,
    protocols: createProtocolServer(deps.handle, x402, drainMs),
  }
}

function createChannels(
  {
    reader,
    withdrawDelaySecondsMin,
    takesNew = () => true,
    isBlocked,
    peerLimits,
  }: ChannelParts & { isBlocked: IsBlocked; peerLimits: PeerLimits },
  { clock, logger, asset, wallet, ledger }: SalesDeps,
): SellerChannels {
  const parties = { receiver: wallet.address, receiverAuthorizer: wallet.channelSigner('claims').address }
  const terms = { ...parties, token: asset.address, withdrawDelaySecondsMin }
  const blame = (peerId: string) => peerLimits.blame(peerId)
  const store = ledger.sellerChannels
  return new SellerChannels({ clock, logger, asset, store, reader, terms, takesNew, isBlocked, blame })
}
