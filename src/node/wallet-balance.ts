import type { Asset } from '../payments/assets.ts'
import { formatAmount } from '../schema/amount.ts'
import type { WalletBalance } from '../schema/api.ts'
import { networkKind } from '../schema/network-kind.ts'
import type { Hex } from '../schema/primitives.ts'

/** The balance of a wallet as the API and the command line show it. `eth`: undefined if it is unknown. */
export function walletBalance(
  address: Hex,
  asset: Asset,
  held: { usdc: bigint; eth: string | undefined },
): WalletBalance {
  const { usdc, eth } = held
  return {
    address,
    network: asset.network,
    network_kind: networkKind(asset.network),
    asset: asset.address,
    symbol: asset.symbol,
    decimals: asset.decimals,
    balance: formatAmount(usdc, asset.decimals),
    balance_atomic: usdc.toString(),
    ...(eth !== undefined && { eth }),
  }
}
