import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { randomHex } from '../../test/support/payments.ts'
import {
  accepted,
  attemptAfter,
  attemptFailed,
  attemptStarted,
  away,
  canAttempt,
  executed,
  type OwedPayment,
  type Payment,
  refused,
  SETTLEMENT_ATTEMPTS_MAX,
  settled,
  voided,
  waiting,
} from './payment.ts'

const id = randomHex()
const txHash = randomHex()
const DAY_MS = 24 * 60 * 60 * 1000
const owed = (changes: Partial<OwedPayment> = {}): OwedPayment => ({
  ...executed({ state: 'authorized', id }, 0),
  ...changes,
})

test('delivering counts the first attempt before it is made, so that a crash cannot hide it', () => {
  expect(owed()).toEqual({ state: 'owed', id, attempts: 1, nextAttemptAt: 30_000, unclear: true })
})

test('a payment whose agent failed is void, and says why', () => {
  expect(voided({ state: 'authorized', id }, 'no')).toEqual({ state: 'voided', id, error: 'no' })
})

describe('D40: attempts fill the window', () => {
  const validBeforeMs = 240_000
  const at = (now: number, chance = 0.5) => ({ now, validBeforeMs, chance })
  test('the first at once, then some 5, 20 and 60 s later, and the last in the last 15 s', () => {
    const times = [0]
    for (let attempts = 1; attempts < SETTLEMENT_ATTEMPTS_MAX; attempts++) {
      times.push(attemptAfter(attempts, at(times.at(-1)!)))
    }
    expect(times).toEqual([0, 5_000, 20_000, 60_000, 227_500])
  })
  test('a fifth more or less, by chance', () => {
    expect([attemptAfter(1, at(0, 0)), attemptAfter(1, at(0, 0.999))]).toEqual([4000, 5998])
    expect([attemptAfter(4, at(0, 0)), attemptAfter(4, at(0, 0.999))]).toEqual([225_000, 229_995])
  })
  test('a short window has its last one in time as well, and the rest of them after it', () => {
    expect(attemptAfter(3, { now: 10_000, validBeforeMs: 40_000, chance: 0.5 })).toBe(27_500)
    expect(attemptAfter(3, { now: 27_500, validBeforeMs: 40_000, chance: 0.5 })).toBe(28_500)
  })
  test('of a window of any length all five can reach the chain', () => {
    const windows = fc.integer({ min: 120_000, max: 3_720_000 })
    fc.assert(
      fc.property(windows, fc.double({ min: 0, max: 0.999, noNaN: true }), (validBeforeMs, chance) => {
        let now = 0
        for (let attempts = 1; attempts < SETTLEMENT_ATTEMPTS_MAX; attempts++) {
          now = attemptAfter(attempts, { now, validBeforeMs, chance })
          expect(canAttempt(owed({ attempts }), { now, validBeforeMs })).toBe(true)
        }
        expect(validBeforeMs - now).toBeLessThanOrEqual(15_000)
      }),
    )
  })
})

describe('D40: a facilitator that is away costs no attempt', () => {
  const at = { now: 1000, validBeforeMs: 100_000, chance: 0.5 }
  test('and is asked again 5 s later', () => {
    const never = away(owed(), { error: 'nobody there', unclear: false }, at)
    expect(never).toMatchObject({ state: 'owed', attempts: 0, nextAttemptAt: 6000, unclear: false })
    const asked = away(owed(), { error: 'answered 503', unclear: true }, at)
    expect(asked).toMatchObject({ state: 'owed', attempts: 0, nextAttemptAt: 6000, unclear: true })
  })
  test('until no attempt could arrive in time', () => {
    const late = { ...at, now: 90_000 }
    expect(away(owed(), { error: 'no', unclear: false }, late)).toMatchObject({ state: 'unsettled', attempts: 0 })
    expect(away(owed(), { error: 'no', unclear: true }, late)).toMatchObject({ state: 'owed', attempts: 0 })
  })
})

describe('canAttempt', () => {
  const at = { now: 1000, validBeforeMs: 100_000 }
  test('allows five attempts in all, and no sixth', () => {
    expect([1, 4].map((attempts) => canAttempt(owed({ attempts }), at))).toEqual([true, true])
    expect(canAttempt(owed({ attempts: 5 }), at)).toBe(false)
  })
  test('allows none that could not reach the chain before validBefore', () => {
    expect(canAttempt(owed(), { now: 93_999, validBeforeMs: 100_000 })).toBe(true)
    expect(canAttempt(owed(), { now: 94_000, validBeforeMs: 100_000 })).toBe(false)
  })
})

test('the facilitator’s word is looked up on chain 2 s later', () => {
  const named = accepted(owed({ error: 'earlier' }), txHash, 1000)
  expect(named).toMatchObject({ state: 'owed', txHash, unclear: true, nextAttemptAt: 3000, error: undefined })
})

describe('a failed attempt', () => {
  const at = { now: 1000, validBeforeMs: 100_000, chance: 0.5 }
  test('is followed by another', () => {
    const next = attemptFailed(owed({ txHash }), { error: 'timed out', unclear: true }, at)
    expect(next).toMatchObject({ state: 'owed', attempts: 1, nextAttemptAt: 6000, unclear: true, error: 'timed out' })
    expect((next as OwedPayment).txHash).toBeUndefined()
  })
  test('that was the fifth, and whose outcome is clear, ends it', () => {
    const last = attemptFailed(owed({ attempts: 5 }), { error: 'no', unclear: false }, at)
    expect(last).toEqual({ state: 'unsettled', id, attempts: 5, error: 'no' })
  })
  test('that was the fifth, and may have paid, is looked at once a minute', () => {
    const last = attemptFailed(owed({ attempts: 5 }), { error: 'no', unclear: true }, at)
    expect(last).toMatchObject({ state: 'owed', attempts: 5, nextAttemptAt: 61_000 })
  })
  test('after which no further could arrive in time, is the last', () => {
    const late = { ...at, now: 93_500 }
    expect(attemptFailed(owed(), { error: 'no', unclear: false }, late)).toMatchObject({ state: 'unsettled' })
    expect(attemptFailed(owed(), { error: 'no', unclear: true }, late)).toMatchObject({ state: 'owed', attempts: 1 })
  })
})

describe('waiting for a chain that cannot be asked', () => {
  const validBeforeMs = 100_000
  const end = validBeforeMs + DAY_MS
  test('goes on until a day after the authorization has expired', () => {
    expect(waiting(owed(), { now: end, validBeforeMs })).toMatchObject({ state: 'owed', nextAttemptAt: end + 60_000 })
  })
  test('ends with the facilitator’s word where there is one, and unsettled where there is none', () => {
    expect(waiting(owed({ txHash }), { now: end + 1, validBeforeMs })).toMatchObject({ state: 'settled', txHash })
    expect(waiting(owed({ error: 'x' }), { now: end + 1, validBeforeMs })).toMatchObject({
      state: 'unsettled',
      error: 'outcome unknown, the chain could not be asked: x',
    })
  })
})

test('whatever happens, no payment is tried more than five times, leaves a final state or lasts for ever', () => {
  const event = fc.record({
    what: fc.constantFrom('settled', 'accepted', 'refused', 'failed', 'unclear', 'waiting'),
    waitMs: fc.nat(2 * 60 * 60 * 1000),
    chance: fc.double({ min: 0, max: 0.999, noNaN: true }),
  })
  fc.assert(
    fc.property(
      fc.array(event, { maxLength: 60 }),
      fc.integer({ min: 1000, max: 4_000_000 }),
      (events, validBeforeMs) => {
        let now = 0
        let attempts = 1
        let payment: Payment = executed({ state: 'authorized', id }, now)
        for (const { what, waitMs, chance } of events) {
          if (payment.state !== 'owed') break
          expect(payment.nextAttemptAt).toBeGreaterThan(now)
          expect(payment.nextAttemptAt - now).toBeLessThanOrEqual(Math.max(60_000, validBeforeMs - now))
          now = payment.nextAttemptAt + waitMs
          let next: OwedPayment = payment
          if (canAttempt(next, { now, validBeforeMs })) {
            next = attemptStarted(next, now)
            attempts++
            expect(now + 6000).toBeLessThan(validBeforeMs)
          }
          expect(next.attempts).toBe(attempts)
          if (what === 'settled') payment = settled(next, txHash, now)
          else if (what === 'accepted') payment = accepted(next, txHash, now)
          else if (what === 'refused') payment = refused(next, what)
          else if (what === 'waiting') payment = waiting(next, { now, validBeforeMs })
          else
            payment = attemptFailed(next, { error: what, unclear: what === 'unclear' }, { now, validBeforeMs, chance })
          expect(attempts).toBeLessThanOrEqual(SETTLEMENT_ATTEMPTS_MAX)
          expect(['owed', 'settled', 'unsettled']).toContain(payment.state)
        }
      },
    ),
    { numRuns: 1000 },
  )
})
