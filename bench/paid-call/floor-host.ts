import { quic } from '@chainsafe/libp2p-quic'
import { noise } from '@libp2p/noise'
import { tcp } from '@libp2p/tcp'
import { yamux } from '@libp2p/yamux'
import { createLibp2p, type Libp2p } from 'libp2p'

/**
 * By protocol: the two round trips alone (floor A), with the durable commits of the design (floor B), with the signatures too
 * (floor C), and with what else no implementation can leave out (floor D). For calls on channels: one round trip alone (floor
 * A1), with one durable commit at each side (floor B1), and with what else no implementation can leave out (floor D1).
 */
export const floors = {
  A: '/bench/floor-a/1.0.0',
  B: '/bench/floor-b/1.0.0',
  C: '/bench/floor-c/1.0.0',
  D: '/bench/floor-d/1.0.0',
  A1: '/bench/floor-a1/1.0.0',
  B1: '/bench/floor-b1/1.0.0',
  D1: '/bench/floor-d1/1.0.0',
} as const
export type Floor = keyof typeof floors
export const floorNames = Object.keys(floors) as Floor[]

/** Streams per protocol and connection: the same number as in a node. */
export const STREAMS_MAX = 256

/** The libp2p stack of the floors, without protocols. */
export function createFloorHost(transport: string): Promise<Libp2p> {
  const listen = transport === 'tcp' ? '/ip4/127.0.0.1/tcp/0' : '/ip4/127.0.0.1/udp/0/quic-v1'
  return createLibp2p({
    addresses: { listen: [listen] },
    transports: [transport === 'tcp' ? tcp() : quic()],
    connectionEncrypters: [noise()],
    streamMuxers: [yamux({ maxEarlyStreams: STREAMS_MAX })],
    connectionMonitor: { enabled: false },
  })
}
