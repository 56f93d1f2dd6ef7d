import { expect, test } from 'vitest'
import { planFaults } from './plan.ts'

const cast = { sellers: ['s1', 's2'], buyers: ['b1', 'b2'], disks: true }

test('a seed gives the same faults each time, and another gives others', () => {
  expect(planFaults(7, 300_000, cast)).toEqual(planFaults(7, 300_000, cast))
  expect(planFaults(8, 300_000, cast)).not.toEqual(planFaults(7, 300_000, cast))
})

test('all kinds come about in a few runs; each fault ends with its run, and a target has one at a time', () => {
  const kinds = new Set<string>()
  for (let seed = 1; seed <= 20; seed++) {
    const busyUntil = new Map<string, number>()
    for (const { kind, target, atMs, forMs } of planFaults(seed, 60_000, cast)) {
      kinds.add(kind)
      expect(atMs + forMs).toBeLessThanOrEqual(60_000)
      const place = ['rpc', 'network'].includes(kind) ? `${kind} ${target}` : target
      expect(atMs).toBeGreaterThan(busyUntil.get(place) ?? 0)
      busyUntil.set(place, atMs + forMs)
    }
  }
  expect([...kinds].sort()).toEqual(['chain', 'clock', 'disk', 'facilitator', 'kill', 'network', 'rpc', 'stop'])
})
