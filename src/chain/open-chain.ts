import type { Logger } from '../lib/logger.ts'
import type { Hex, Network } from '../schema/primitives.ts'
import type { Chain } from './chain.ts'

const RPC_TIMEOUT_MS = 10_000

/** The chain of a node; undefined without an RPC. The code loads only if there is one. */
export async function openChain(
  { network, rpcUrl }: { network: Network; rpcUrl: string | undefined },
  asset: { address: Hex },
  logger: Logger,
): Promise<Chain | undefined> {
  if (rpcUrl === undefined) return undefined
  const { createChain } = await import('./chain.ts')
  return createChain({ network, asset: asset.address, rpcUrl, timeoutMs: RPC_TIMEOUT_MS }, { logger })
}
