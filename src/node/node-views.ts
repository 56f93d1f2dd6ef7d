import type { Registry } from '../agents/registry.ts'
import type { Chain } from '../chain/chain.ts'
import { etherOf } from '../chain/ether.ts'
import type { Trading } from '../ledger/trading.ts'
import { type Clock, isoTime, type UnixMs } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import { OPEN_FILES_WANTED, openFilesMax } from '../lib/open-files.ts'
import type { Catalog } from '../listings/catalog.ts'
import type { Host, PeerView } from '../p2p/host.ts'
import type { Asset } from '../payments/assets.ts'
import type { NodeStatus, PeerStatus, WalletBalance } from '../schema/api.ts'
import { networkKind } from '../schema/network-kind.ts'
import type { Hex, Network } from '../schema/primitives.ts'
import { walletBalance } from './wallet-balance.ts'

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

export class Uptime {
  readonly #clock: Clock
  #startedAt: UnixMs

  constructor(clock: Clock) {
    this.#clock = clock
    this.#startedAt = clock.now()
  }

  get startedAt(): UnixMs {
    return this.#startedAt
  }

  get ms(): number {
    return this.#clock.now() - this.#startedAt
  }

  begin(): void {
    this.#startedAt = this.#clock.now()
  }
}

/** The status of the node (D21), as far as the ledger is not asked. */
export type NodeCondition = Omit<NodeStatus, 'settlement' | 'alarms'>

export function nodeCondition(
  deps: {
    host: Pick<Host, 'peerId' | 'addresses' | 'reachability'>
    marketHost: Pick<Host, 'peerId' | 'addresses' | 'search'>
    peers(): readonly PeerView[]
    registry: Pick<Registry, 'list'>
    catalog: Pick<Catalog, 'count'>
    trading: Pick<Trading, 'state'>
    network: Network
    walletAddress: Hex
    walletBefore: string | undefined
    restoredAt: UnixMs | undefined
    version: string
    name: string | undefined
  },
  uptimeMs: number,
): NodeCondition {
  const {
    host,
    marketHost,
    registry,
    catalog,
    trading,
    network,
    walletAddress,
    walletBefore,
    restoredAt,
    version,
    name,
  } = deps
  return {
    ...(name !== undefined && { name }),
    peer_id: host.peerId,
    addresses: host.addresses(),
    ...(marketHost.peerId !== host.peerId && {
      market: { peer_id: marketHost.peerId, addresses: marketHost.addresses() },
    }),
    connected_peers: deps.peers().length,
    version,
    uptime_seconds: Math.max(0, Math.floor(uptimeMs / 1000)),
    network,
    network_kind: networkKind(network),
    wallet_address: walletAddress,
    ...(walletBefore !== undefined && { wallet_before: walletBefore }),
    ...(restoredAt !== undefined && { ledger_restored_at: isoTime(restoredAt) }),
    agents: { local: registry.list().length, known: catalog.count() },
    reachability: host.reachability(),
    search: marketHost.search(),
    trading: trading.state(),
    open_files: openFiles(),
  }
}

function openFiles(): NodeStatus['open_files'] {
  const max = openFilesMax()
  return { ...(max !== undefined && { max }), wanted: OPEN_FILES_WANTED }
}

/** The caller needs the USDC balance. The ETH balance is omitted if it takes longer. */
const ETHER_MS_MAX = 5000

/** Reads the USDC and ETH balance of the wallet from the chain (D21). @throws CodedError CHAIN_UNAVAILABLE */
export async function readBalance(address: Hex, asset: Asset, chain: Chain | undefined): Promise<WalletBalance> {
  if (chain === undefined) {
    throw new CodedError('CHAIN_UNAVAILABLE', 'no RPC is configured: set ETHEREUM_RPC_URL or --rpc-url')
  }
  const [usdc, eth] = await Promise.all([
    chain.usdcBalance(address),
    etherOf(chain, address, AbortSignal.timeout(ETHER_MS_MAX)),
  ])
  return walletBalance(address, asset, { usdc, eth })
}
