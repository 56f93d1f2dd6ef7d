import type { Connection } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import { expect, test, vi } from 'vitest'
import { silentLogger } from '../lib/logger.ts'
import { type HeartbeatDeps, runHeartbeat } from './heartbeat.ts'

const remotePeer = peerIdFromString('12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5')
const silent = () => new Promise<never>(() => {})
/** A refusal is an answer too. */
const refuses = () => Promise.reject(Object.assign(new Error('no pings here'), { name: 'UnsupportedProtocolError' }))

function connection(id: string, newStream: () => Promise<never>): Connection {
  return { id, remotePeer, status: 'open', newStream: vi.fn(newStream), abort: vi.fn() } as unknown as Connection
}

/** Runs the heartbeat over a connection that falls silent as a further one comes, until it is closed. @returns why it was */
async function closedBecause(first: Connection, further: Connection): Promise<string> {
  const stopping = new AbortController()
  const closed = new Promise<string>((resolve) => {
    vi.mocked(first.abort).mockImplementation((error) => resolve(error.message))
  })
  const open = [first]
  const events = new EventTarget()
  const libp2p = Object.assign(events, { getConnections: () => open, peerStore: { get: silent } })
  const deps = { libp2p, logger: silentLogger, noteLatency() {}, beat() {}, movedAt: () => 0 }
  const options = { pingEveryMs: 20, pingTimeoutMs: 10, lookEveryMs: 1, beatEveryMs: 1000 }
  const running = runHeartbeat(options, deps as unknown as HeartbeatDeps, stopping.signal)
  await vi.waitFor(() => expect(first.newStream).toHaveBeenCalled())
  vi.mocked(first.newStream).mockImplementation(silent)
  open.push(further)
  events.dispatchEvent(new CustomEvent('connection:open', { detail: further }))
  const reason = await closed
  stopping.abort()
  await running
  return reason
}

test('a connection that is silent while a further one of its peer answers is closed early', async () => {
  expect(await closedBecause(connection('first', refuses), connection('further', refuses))).toContain('2 pings')
})

test('a peer that is slow over all its connections keeps them for as long as any other', async () => {
  expect(await closedBecause(connection('first', refuses), connection('further', silent))).toContain('3 pings')
})
