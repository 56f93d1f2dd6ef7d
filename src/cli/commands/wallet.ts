import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import { NetworkText, RpcUrlText } from '../../config/values.ts'
import { silentLogger } from '../../lib/logger.ts'
import { walletBalance } from '../../node/wallet-balance.ts'
import type { WalletBalance } from '../../schema/api.ts'
import type { Hex } from '../../schema/primitives.ts'
import { openDataDir } from '../../store/data-dir.ts'
import { type Context, command, option } from '../command.ts'
import { CliError } from '../exit-code.ts'
import { findRunningNode } from '../node-access/running-node.ts'
import { badge, tellMoney } from '../text/badge.ts'
import { waiting } from '../text/spinner.ts'

const RPC_MS_MAX = 8000

export const wallet = command({
  name: 'wallet',
  summary: 'Show the address of the wallet and its USDC and ETH',
  details:
    'No node needs to run. If there is no wallet yet, the command creates one, so that you can fund it before the first start.',
  examples: ['stoa wallet', 'stoa wallet address', 'stoa wallet balance --json'],
  options: {
    network: option('--network <id>', 'eip155:84532 (default) or eip155:8453', NetworkText),
    rpcUrl: option('--rpc-url <url>', 'JSON-RPC endpoint of that network', RpcUrlText),
  },
  argument: { name: 'what', isOptional: true, description: 'show only this part', choices: ['address', 'balance'] },
  async run(context, flags, what) {
    const { config, secrets } = await context.loadConfig(flags)
    const view = await viewWallet(context, config, secrets)
    if (what === 'address') {
      context.printResult({ address: view.address, network: view.network }, view.address)
      return
    }
    // Shown before the chain is read: the address is known even without an RPC (T15).
    if (what === undefined && !context.json) {
      context.print(`${view.address}  on ${view.network}  ${badge(view.network, context.style.stdout)}`)
    }
    const balance = await waiting(context, 'asking the chain', () => view.balance())
    const gas = balance.eth === undefined ? '' : `, ${balance.eth} ETH for gas`
    context.printResult(balance, `${balance.balance} ${balance.symbol}${gas}`)
    if (what === 'balance') tellMoney(context, view.network)
  },
})

type WalletView = { address: Hex; network: string; balance(): Promise<WalletBalance> }

/**
 * Reads the wallet from the running node, because its key may differ from this environment's. Otherwise uses our own
 * key.
 */
async function viewWallet(context: Context, config: Config, secrets: Secrets): Promise<WalletView> {
  const { signal } = context.io
  const running = await findRunningNode(context, config, secrets)
  if (running !== undefined) {
    const { wallet_address: address, network } = await running.node.status({ signal })
    return { address, network, balance: () => running.node.balance({ signal }) }
  }
  await openDataDir(config.dataDir)
  const address = await loadAddress(context, config, secrets)
  return { address, network: config.network, balance: () => readBalance(address, config, context, signal) }
}

async function loadAddress(context: Context, config: Config, secrets: Secrets): Promise<Hex> {
  const { isWalletMissing, loadOrCreateWalletKey, newWalletText } = await import('../../payments/wallet-key.ts')
  const { walletAddress } = await import('../../payments/wallet.ts')
  const isMissing = await isWalletMissing(config.dataDir, secrets)
  const { key } = await loadOrCreateWalletKey(config.dataDir, secrets)
  const address = walletAddress(key)
  if (isMissing) context.tell(newWalletText(address))
  return address
}

/** Reads the USDC balance of an address from the RPC. @throws ChainError */
export async function readBalance(
  address: Hex,
  config: Pick<Config, 'network' | 'rpcUrl'>,
  { parts }: Pick<Context, 'parts'>,
  signal: AbortSignal,
): Promise<WalletBalance> {
  const { createChain } = await import('../../chain/chain.ts')
  const { assets } = await import('../../payments/assets.ts')
  const asset = assets[config.network]
  if (config.rpcUrl === undefined) throw new CliError('FAILED', 'no RPC endpoint is set: give one with --rpc-url')
  const options = { network: config.network, asset: asset.address, rpcUrl: config.rpcUrl, timeoutMs: RPC_MS_MAX }
  const chain = createChain(options, { logger: silentLogger, fetch: parts.fetch })
  const { etherOf } = await import('../../chain/ether.ts')
  const [usdc, eth] = await Promise.all([chain.usdcBalance(address, signal), etherOf(chain, address, signal)])
  return walletBalance(address, asset, { usdc, eth })
}
