import type { ChannelReader } from '../../chain/batch-settlement.ts'
import type { Chain } from '../../chain/chain.ts'
import type { Trading } from '../../ledger/trading.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/logger.ts'
import type { Sender } from '../../payments/sender.ts'
import type { Wallet } from '../../payments/wallet.ts'
import type { StreamPool } from '../../protocols/streams.ts'
import type { AgentStats } from '../../schema/standing.ts'
import type { BuyerChannels } from '../../store/buyer-channels.ts'
import type { WalletFunds } from '../wallet-checks.ts'
import type { LockRules } from './deposit-limits.ts'
import type { MissingDeps } from './missing.ts'

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
