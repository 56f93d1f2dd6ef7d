import { BootstrapList, LogLevelText, logLevels, NetworkText, PortText, RpcUrlText } from '../../config/values.ts'
import { flag, option, repeated } from '../command.ts'

/** Options of every command that may run a node in its own process. */
export const networkOptions = {
  port: option(
    '-p, --port <port>',
    'peer-to-peer port, TCP and UDP (default: 4001 for stoa start, otherwise any free port)',
    PortText,
  ),
  bootstrap: repeated(
    '--bootstrap <multiaddr>',
    'address of a peer to connect to first, ending in /p2p/<peer id>; may be repeated',
    BootstrapList,
  ),
  publicDht: flag('--public-dht', 'find the market in the public DHT of libp2p, even with --bootstrap'),
  publicDhtOff: flag('--no-public-dht', 'do not use the public DHT, which shows the address of this node'),
  mdns: flag('--no-mdns', 'do not look for peers on the local network'),
  network: option(
    '--network <id>',
    'eip155:84532 (Base Sepolia, default) or eip155:8453 (Base, real money)',
    NetworkText,
  ),
  rpcUrl: option('--rpc-url <url>', 'JSON-RPC endpoint of that network', RpcUrlText),
  logLevel: option('--log-level <level>', `log level on standard error: ${logLevels.join(', ')}`, LogLevelText),
} as const
