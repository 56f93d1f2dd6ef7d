import type { Connection } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import { expect, test, vi } from 'vitest'
import { silentLogger } from '../lib/logger.ts'
import { runHeartbeat } from './heartbeat.ts'

const remotePeer = peerIdFromString('12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5')
const silent = () => new Promise<never>(() => {})
/** A refusal is an answer too. */
const refuses = () => Promise.reject(Object.assign(new Error('no pings here'), { name: 'UnsupportedProtocolError' }))

function connection(id: string, newStream: () => Promise<never>): Connection {
  return { id, remotePeer, status: 'open', newStream: vi.fn(newStream), abort: vi.fn() } as unknown as Connection
}

const options = { pingEveryMs: 20, pingTimeoutMs: 10, lookEveryMs: 1, beatEveryMs: 1000 }

/** Runs the heartbeat over connections. @returns how to stop it */
function beating(events: EventTarget, open: Connection[]): () => Promise<void> {
  const stopping = new AbortController()
  const libp2p = Object.assign(events, { getConnections: () => open, peerStore: { get: silent } })
  const deps = { libp2p, logger: silentLogger, noteLatency() {}, beat() {}, movedAt: () => 0 }
  const running = runHeartbeat(options, deps as unknown as Parameters<typeof runHeartbeat>[1], stopping.signal)
  return () => {
    stopping.abort()
    return running
  }
}

/** Runs the heartbeat over a connection that falls silent as a further one comes, until it is closed. @returns why it was */
async function closedBecause(first: Connection, further: Connection): Promise<string> {
  const closed = new Promise<string>((resolve) => {
    vi.mocked(first.abort).mockImplementation((error) => resolve(error.message))
  })
  const open = [first]
  const events = new EventTarget()
  const stop = beating(events, open)
  await vi.waitFor(() => expect(first.newStream).toHaveBeenCalled(), 30_000)
  vi.mocked(first.newStream).mockImplementation(silent)
  open.push(further)
  events.dispatchEvent(new CustomEvent('connection:open', { detail: further }))
  const reason = await closed
  await stop()
  return reason
}

test('a silent connection is closed early if another connection of its peer answers', async () => {
  expect(await closedBecause(connection('first', refuses), connection('further', refuses))).toContain('2 pings')
})

test('a peer that is slow over all its connections keeps them as long as any other peer', async () => {
  expect(await closedBecause(connection('first', refuses), connection('further', silent))).toContain('3 pings')
})

test('T7: a connection is pinged, however many others do not answer', async () => {
  const mute = Array.from({ length: 64 }, (_, index) => connection(`mute ${index}`, silent))
  const other = connection('other', refuses)
  const stop = beating(new EventTarget(), [...mute, other])
  await vi.waitFor(() => expect(vi.mocked(other.newStream).mock.calls.length).toBeGreaterThanOrEqual(2), 30_000)
  await stop()
})
