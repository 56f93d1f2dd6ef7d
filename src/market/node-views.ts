import type { Chain } from '../chain/chain.ts'
import { CodedError } from '../lib/errors.ts'
import type { PeerView } from '../p2p/host.ts'
import type { Asset } from '../payments/assets.ts'
import { formatAmount } from '../schema/amount.ts'
import type { PeerStatus, WalletBalance } from '../schema/api.ts'
import type { Hex } from '../schema/primitives.ts'

/** A connected peer as the API shows it (D21). */
export function peerStatus({ peerId, addresses, direction, latencyMs, agentVersion }: PeerView): PeerStatus {
  return {
    peer_id: peerId,
    addresses,
    direction,
    ...(latencyMs === undefined ? {} : { latency_ms: latencyMs }),
    ...(agentVersion === undefined ? {} : { agent_version: agentVersion }),
  }
}

/** The wallet's USDC, read from the chain (D21). @throws CodedError `CHAIN_UNAVAILABLE` also where no RPC is configured */
export async function walletBalance(address: Hex, asset: Asset, chain: Chain | undefined): Promise<WalletBalance> {
  if (chain === undefined) {
    throw new CodedError('CHAIN_UNAVAILABLE', 'no RPC is configured: set ETHEREUM_RPC_URL or --rpc-url')
  }
  const atomic = await chain.usdcBalance(address)
  return {
    address,
    network: asset.network,
    asset: asset.address,
    symbol: asset.symbol,
    decimals: asset.decimals,
    balance: formatAmount(atomic, asset.decimals),
    balance_atomic: atomic.toString(),
  }
}
