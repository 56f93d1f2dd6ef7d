import type { Connection, Stream } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import { expect, test } from 'vitest'
import { silentLogger } from '../../lib/logger.ts'
import { HolePunch } from './hole-punch.ts'

const remotePeer = peerIdFromString('12D3KooWJWEKvSFbben74C7H4YtKjhPMTDxd7gP7zxWSUEeF27st')

test('a peer that came over a relay by itself cannot make this node dial what it names', async () => {
  let answer: ((stream: Stream, connection: Connection) => void) | undefined
  const libp2p = Object.assign(new EventTarget(), {
    handle: async (_protocol: string, handler: typeof answer) => {
      answer = handler
    },
    getConnections: () => [],
  })
  const deps = { libp2p, logger: silentLogger, reuse: { port: 4001, dialed: new Set() } }
  const stopping = new AbortController()
  const running = new HolePunch(deps as unknown as ConstructorParameters<typeof HolePunch>[0]).run(stopping.signal)
  const askedOver = (direction: 'inbound' | 'outbound') => {
    const reasons: string[] = []
    const stream = Object.assign(new EventTarget(), { abort: ({ message }: Error) => reasons.push(message) })
    answer?.(stream as unknown as Stream, { direction, limits: {}, remotePeer } as Connection)
    return reasons
  }
  expect(askedOver('inbound')).toEqual(['there is nothing to punch'])
  // A seller that was dialed is listened to, as far as this stream goes.
  expect(askedOver('outbound')).not.toContain('there is nothing to punch')
  stopping.abort()
  await running
})
