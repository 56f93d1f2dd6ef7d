import fc from 'fast-check'
import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import type { ExecutionFact } from '../store/ledger-reader.ts'
import type { LedgerDirection, LedgerState, PaymentFact, PaymentSum } from '../store/payment-facts.ts'
import { createEarnings } from './stats.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const now = Date.UTC(2026, 5, 15, 12)

function setup() {
  const clock = new HandClock(now)
  const rows: Record<LedgerDirection, PaymentFact[]> = { in: [], out: [] }
  const executions: ExecutionFact[] = []
  const earnings = createEarnings({
    clock,
    decimals: 6,
    nameOf: (id) => (id === 'a' ? 'Agent' : undefined),
    ledger: {
      paymentFacts: async (direction, after, limit) => rows[direction].filter(({ no }) => no > after).slice(0, limit),
      paymentSums: async (direction, after, { limit, hoursSince }) =>
        summed(rows[direction].filter(({ no }) => no > after).slice(0, limit), hoursSince),
      revisions: async () => 0,
      executionFacts: async (after, limit) => executions.filter(({ no }) => no > after).slice(0, limit),
    },
  })
  const add = (direction: LedgerDirection, state: LedgerState, amount: bigint, daysAgo = 0, proven = true) => {
    const no = rows[direction].length + 1
    const row = { no, state, proven, agentId: 'a', amount, createdAt: now - daysAgo * DAY_MS }
    rows[direction].push(row)
    return row
  }
  return { clock, rows, executions, add, earnings, stats: (days = 30) => earnings.stats({ days }) }
}

/** What the ledger makes of payments: see test/ledger/ledger-reader.test.ts. */
function summed(facts: readonly PaymentFact[], hoursSince: number): PaymentSum[] {
  const sums = new Map<string, PaymentSum>()
  for (const { no, createdAt, refundTx, amount, ...kind } of facts) {
    const slotMs = createdAt >= hoursSince ? DAY_MS / 24 : DAY_MS
    const same = { ...kind, refunded: refundTx !== undefined, slot: Math.floor(createdAt / slotMs) * slotMs }
    const key = JSON.stringify(same)
    const sum = sums.get(key) ?? { ...same, amount: 0n, payments: 0, newestAt: 0, last: 0 }
    const { newestAt, last, payments } = sum
    const times = { newestAt: Math.max(newestAt, createdAt), last: Math.max(last, no) }
    sums.set(key, { ...sum, ...times, amount: sum.amount + amount, payments: payments + 1 })
  }
  return [...sums.values()]
}

test('D42: the sums are earned, owed, lost and refused, and paid, held and not charged, by UTC day', async () => {
  const { add, stats } = setup()
  add('in', 'settled', 1_500_000n)
  add('in', 'settled', 500_000n, 3)
  add('in', 'settled', 7n, 40)
  add('in', 'voided', 9_000_000n)
  add('in', 'owed', 20n)
  add('in', 'unsettled', 30n)
  add('in', 'unsettled', 870_000n, 0, false)
  add('out', 'spent', 250_000n)
  add('out', 'spent', 7n, 0, false)
  add('out', 'reserved', 1n, 0, false)
  add('out', 'released', 9_000_000n)
  const { earned, owed, lost, refused, paid, held, not_charged, days, agents } = await stats()
  expect(earned).toMatchObject({ today: '1.5', month: '2', total: '2.000007', total_atomic: '2000007' })
  expect(paid).toMatchObject({ today: '0.25', total_atomic: '250000' })
  const open = { owed, lost, refused, held, not_charged }
  expect(Object.entries(open).map(([book, { payments, amount_atomic }]) => [book, payments, amount_atomic])).toEqual([
    ['owed', 1, '20'],
    ['lost', 1, '30'],
    ['refused', 1, '870000'],
    ['held', 2, '8'],
    ['not_charged', 1, '9000000'],
  ])
  expect(days).toMatchObject([
    { day: '2026-06-12', earned: '0.5', bought: 0 },
    { day: '2026-06-15', earned: '1.5', paid: '0.25', bought: 3 },
  ])
  expect(agents).toMatchObject([{ agent_id: 'a', name: 'Agent', earned_atomic: '2000007' }])
})

test('D48 a token is told of what it asked for alone', async () => {
  const { add, executions, earnings } = setup()
  const bought = (owner: string | undefined, amount: bigint) => Object.assign(add('out', 'spent', amount), { owner })
  bought('ann', 20n)
  bought('bob', 300n)
  bought(undefined, 4_000n)
  add('in', 'settled', 50_000n)
  for (const owner of ['ann', 'bob', undefined, 'bob']) {
    executions.push({ no: executions.length + 1, agentId: 'a', failed: false, createdAt: now, durationMs: 1, owner })
  }
  const sums = async (owner?: string) => {
    const { paid, earned, agents, days, hours } = await earnings.stats({ days: 30, owner })
    const calls = [agents[0]?.calls ?? 0, hours[0]?.executions ?? 0, days[0]?.bought ?? 0]
    return [paid.total_atomic, earned.total_atomic, ...calls]
  }
  for (let look = 0; look < 2; look++) {
    expect(await sums()).toEqual(['4320', '50000', 4, 4, 3])
    expect(await sums('ann')).toEqual(['20', '0', 1, 1, 1])
    expect(await sums('bob')).toEqual(['300', '0', 2, 2, 1])
    expect(await sums('nobody')).toEqual(['0', '0', 0, 0, 0])
  }
})

test('what was earned and paid in the last two days is told by hour, also while it can still change', async () => {
  const { add, stats } = setup()
  add('in', 'settled', 1_500_000n)
  add('in', 'settled', 500_000n)
  add('in', 'settled', 7n, 1)
  add('in', 'settled', 9n, 3)
  add('out', 'spent', 250_000n)
  const { hours } = await stats()
  expect(hours).toMatchObject([
    { hour: '2026-06-14T12:00:00.000Z', earned_atomic: '7', paid: '0' },
    { hour: '2026-06-15T12:00:00.000Z', earned: '2', paid: '0.25', paid_atomic: '250000', executions: 0 },
  ])
})

test('executions are told by hour and by agent, with how long they took', async () => {
  const { executions, stats } = setup()
  for (let no = 1; no <= 1_200; no++) {
    executions.push({
      no,
      agentId: 'a',
      failed: no % 10 === 0,
      createdAt: now - (no % 3) * 3_600_000,
      durationMs: no % 100,
    })
  }
  const { hours, agents } = await stats()
  expect(hours.map(({ executions: count }) => count)).toEqual([400, 400, 400])
  expect(agents[0]).toMatchObject({ calls: 1_200, failed: 120, p50_ms: 50, p95_ms: 95 })
})

test('whatever becomes of payments between two looks, the sums are those of a first look', async () => {
  const state = fc.constantFrom<LedgerState>('authorized', 'owed', 'settled', 'voided', 'unsettled')
  const step = fc.record({ state, at: fc.nat(), look: fc.boolean() })
  const next: Partial<Record<LedgerState, LedgerState[]>> = {
    authorized: ['owed', 'voided'],
    owed: ['settled', 'unsettled'],
    unsettled: ['owed'],
  }
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const kept = setup()
      for (const { state: wanted, at, look } of steps) {
        const row = kept.rows.in[at % (kept.rows.in.length + 1)]
        if (row === undefined) kept.add('in', 'authorized', BigInt(at + 1))
        else if (next[row.state]?.includes(wanted)) row.state = wanted
        if (look) await kept.stats()
      }
      const fresh = setup()
      for (const row of kept.rows.in) fresh.rows.in.push(row)
      expect(await kept.stats()).toEqual(await fresh.stats())
    }),
    { numRuns: 200 },
  )
})

test('what is committed after a row with a higher number is counted too', async () => {
  const { clock, rows, executions, add, stats } = setup()
  add('out', 'released', 1n)
  const late = { ...add('out', 'released', 20n), no: 1 }
  rows.out = [{ ...rows.out[0]!, no: 2 }]
  executions.push({ no: 2, agentId: 'a', failed: false, createdAt: now, durationMs: 1 })
  await stats()
  rows.out.unshift(late)
  executions.unshift({ no: 1, agentId: 'a', failed: true, createdAt: now, durationMs: 1 })
  for (let look = 0; look < 3; look++) {
    const { not_charged, agents } = await stats()
    expect([not_charged.amount_atomic, agents[0]?.calls, agents[0]?.failed]).toEqual(['21', 2, 1])
    clock.advance(3 * 60_000)
  }
})

test('many payments are summed up in parts, also around one that is still open', async () => {
  const { add, rows, stats } = setup()
  for (let i = 0; i < 9_000; i++) add('in', 'settled', 1n, 9_000 / (i + 300))
  rows.in[5_000]!.state = 'owed'
  for (let look = 0; look < 2; look++) {
    const { earned, owed, days } = await stats(40)
    expect([earned.total_atomic, owed.payments]).toEqual(['8999', 1])
    expect(days.reduce((sum, { earned_atomic }) => sum + Number(earned_atomic), 0)).toBe(8_999)
  }
  rows.in[5_000]!.state = 'settled'
  add('in', 'owed', 1n)
  for (let look = 0; look < 2; look++) {
    const { earned, owed } = await stats()
    expect([earned.total_atomic, owed.payments]).toEqual(['9000', 1])
  }
})

test('two who ask at once get the same, each row counted once', async () => {
  const { add, stats } = setup()
  for (let i = 0; i < 1_100; i++) add('in', 'settled', 1n)
  const [one, other] = await Promise.all([stats(), stats()])
  expect(one).toEqual(other)
  expect(one.earned.total_atomic).toBe('1100')
})

test('what was sold at a door does not count a run that failed and was not charged', async () => {
  const { add, stats } = setup()
  Object.assign(add('in', 'settled', 10_000n), { door: 'http' })
  Object.assign(add('in', 'voided', 10_000n), { door: 'http' })
  const { doors } = await stats()
  expect(doors.find(({ door }) => door === 'http')).toMatchObject({ calls: 1, earned: '0.01' })
})
