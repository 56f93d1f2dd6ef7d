import { BootstrapList, LogLevelText, logLevels, NetworkText, PortText, RpcUrlText } from '../../config/values.ts'
import { flag, option, repeated } from '../command.ts'

/** Options of every command that may run a node in its own process. */
export const networkOptions = {
  port: option(
    '-p, --port <port>',
    'peer-to-peer port, TCP and UDP (default: 4001 for start, any free one otherwise)',
    PortText,
  ),
  bootstrap: repeated(
    '--bootstrap <multiaddr>',
    'a first peer to meet, ends in /p2p/<peer id>; may be repeated',
    BootstrapList,
  ),
  publicDht: flag('--public-dht', 'find the market in the public DHT of libp2p although --bootstrap is given'),
  publicDhtOff: flag('--no-public-dht', 'do not look for the market in the public DHT, where this node is seen'),
  mdns: flag('--no-mdns', 'do not look for peers on the local network'),
  network: option(
    '--network <id>',
    'eip155:84532, Base Sepolia (default), or eip155:8453, Base with real money',
    NetworkText,
  ),
  rpcUrl: option('--rpc-url <url>', 'JSON-RPC endpoint of that network', RpcUrlText),
  logLevel: option('--log-level <level>', `what to log to standard error: ${logLevels.join(', ')}`, LogLevelText),
} as const
