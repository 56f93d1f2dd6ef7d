import { expect, test } from 'vitest'
import { simulate } from '../../bench/simulation/simulate.ts'

const small = { nodes: 30, listings: 800, rounds: 12 }

test('T3 thirty nodes, three of them liars, agree on the true listings after losses, churn and a partition', () => {
  const report = simulate({ seed: 7, ...small })
  expect(report).toMatchObject({ converged: true, liars: 3, honest: 27, witnesses: 2 })
  expect(report.quietRounds).toBeLessThanOrEqual(5)
  // There was something to heal, and lies to refuse.
  expect(report.staleShare.atHealing).toBeGreaterThan(0)
  expect(report.work.forged).toBeGreaterThan(0)
  expect(report.work.misjudged).toBe(0)
})

test('a seed gives the same simulation each time, another seed another', () => {
  const digests = [1, 1, 2].map((seed) => simulate({ seed, ...small, rounds: 6 }).digest)
  expect(digests[0]).toBe(digests[1])
  expect(digests[0]).not.toBe(digests[2])
})

test('without reconciliation nodes would not agree: what gossip loses stays lost', () => {
  const report = simulate({ seed: 7, ...small, messageLossShare: 1, quietRoundsMax: 4 })
  expect(report.converged).toBe(false)
})

test('where half of all nodes lie, the honest half agrees', () => {
  expect(simulate({ seed: 3, ...small, liarShare: 0.5 })).toMatchObject({ converged: true, honest: 15 })
})
