import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import type { PeerView } from '../p2p/host.ts'
import { createPresences } from './presence.ts'

const MINUTE_MS = 60_000

/** A node with one peer connected, which can ask sellers `s0`, `s1` … of listings `l0`, `l1` …; `down` do not answer. */
function world() {
  const clock = new HandClock()
  const down = new Set<string>()
  const asked: string[] = []
  const peers: PeerView[] = [{ peerId: 'neighbor', addresses: [], direction: 'outbound', latencyMs: 7 }]
  const gone = new Set<string>()
  const presences = createPresences({
    clock,
    host: {
      peerId: 'self',
      peers: () => peers,
      async probe({ peerId }) {
        asked.push(peerId)
        if (down.has(peerId)) throw new Error('no answer')
        return 42
      },
    },
    addressesOf: (id) => (gone.has(id) ? undefined : ['/ip4/9.9.9.9/tcp/4001']),
  })
  const later = async (ms: number) => {
    clock.advance(ms)
    await presences.probe()
  }
  return { clock, down, gone, asked, peers, presences, later }
}

test('a connection shows that its seller is online, and the seller is not probed', async () => {
  const { presences, later, asked } = world()
  expect(presences.of('neighbor', 'l')).toEqual({ online: true, latencyMs: 7 })
  expect(presences.of('self', 'l')).toEqual({ online: true, latencyMs: 0 })
  await later(MINUTE_MS)
  expect(asked).toEqual([])
})

test('a seller that a search found is probed, and its answer counts for a while', async () => {
  const { presences, later, asked } = world()
  expect(presences.of('s0', 'l0')).toBeUndefined()
  await later(1000)
  expect(presences.of('s0', 'l0')).toEqual({ online: true, latencyMs: 42 })
  await later(20_000)
  expect(asked).toEqual(['s0'])
  await later(MINUTE_MS)
  expect(asked).toEqual(['s0', 's0'])
})

test('a seller that was killed is not shown online for longer than the presence interval', async () => {
  const { presences, later, clock, down } = world()
  presences.of('s0', 'l0')
  await later(1000)
  down.add('s0')
  clock.advance(60_000 - 1)
  expect(presences.of('s0', 'l0')).toEqual({ online: true, latencyMs: 42 })
  clock.advance(1)
  expect(presences.of('s0', 'l0')).toBeUndefined()
  await later(1000)
  await later(MINUTE_MS)
  expect(presences.of('s0', 'l0')).toEqual({ online: false })
})

test('D52: one search has only a few sellers asked, however many it found', async () => {
  const { presences, later, asked } = world()
  for (let n = 0; n < 60; n++) presences.of(`s${n}`, `l${n}`)
  for (let n = 0; n < 60; n++) await later(1000)
  expect(new Set(asked).size).toBe(16)
})

test('a seller is offline after two questions without an answer, asked ever more rarely, and online again when it answers', async () => {
  const { presences, later, asked, down } = world()
  presences.of('s0', 'l0')
  await later(1000)
  down.add('s0')
  await later(50_000)
  expect(presences.of('s0', 'l0')).toEqual({ online: true, latencyMs: 42 })
  await later(MINUTE_MS)
  expect(presences.of('s0', 'l0')).toEqual({ online: false })
  asked.length = 0
  const sought = async (minutes: number) => {
    for (let minute = 0; minute < minutes; minute++) {
      presences.of('s0', 'l0')
      await later(MINUTE_MS)
    }
  }
  await sought(120)
  expect(asked.length).toBeGreaterThan(4)
  expect(asked.length).toBeLessThan(14)
  down.clear()
  await sought(31)
  expect(presences.of('s0', 'l0')).toEqual({ online: true, latencyMs: 42 })
})

test('T19: a node asks few at a time, and nobody when nobody looks for them', async () => {
  const { presences, later, asked } = world()
  for (let index = 0; index < 100; index++) presences.of(`s${index}`, `l${index}`)
  await later(1000)
  expect(asked).toHaveLength(4)
  await later(31 * MINUTE_MS)
  for (let minute = 0; minute < 60; minute++) await later(MINUTE_MS)
  expect(asked).toHaveLength(4)
})

test('a node that is alone asks nobody: it is itself that is offline; nor one whose listing is gone', async () => {
  const { presences, later, asked, peers, gone } = world()
  const [neighbor] = peers.splice(0)
  presences.of('s0', 'l0')
  await later(2000)
  expect(asked).toEqual([])
  peers.push(neighbor!)
  gone.add('l0')
  await later(2000)
  expect(asked).toEqual([])
})
