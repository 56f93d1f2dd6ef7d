/** A libp2p node with our modules and no protocols. Prints a line when it listens. `--no-mdns` works as ours. */
import { quic } from '@chainsafe/libp2p-quic'
import { autoNATv2 } from '@libp2p/autonat-v2'
import { circuitRelayTransport } from '@libp2p/circuit-relay-v2'
import { gossipsub } from '@libp2p/gossipsub'
import { identify, identifyPush } from '@libp2p/identify'
import { kadDHT } from '@libp2p/kad-dht'
import { noise } from '@libp2p/noise'
import { ping } from '@libp2p/ping'
import { tcp } from '@libp2p/tcp'
import { yamux } from '@libp2p/yamux'
import { createLibp2p } from 'libp2p'

const mdns = process.argv.includes('--no-mdns') ? undefined : (await import('@libp2p/mdns')).mdns
await createLibp2p({
  addresses: { listen: ['/ip4/127.0.0.1/tcp/0', '/ip4/127.0.0.1/udp/0/quic-v1'] },
  transports: [tcp(), quic(), circuitRelayTransport()],
  connectionEncrypters: [noise()],
  streamMuxers: [yamux()],
  peerDiscovery: mdns === undefined ? [] : [mdns()],
  services: {
    identify: identify(),
    identifyPush: identifyPush(),
    ping: ping(),
    autonat: autoNATv2(),
    dht: kadDHT({ protocol: '/bench/kad/1.0.0', clientMode: false }),
    pubsub: gossipsub(),
  },
})
// A process that a signal ends leaves nothing in the compile cache.
process.once('SIGTERM', () => process.exit(0))
process.stdout.write('listening\n')
