import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { randomHex } from '../../test/support/payments.ts'
import {
  accepted,
  attemptFailed,
  attemptStarted,
  backoffMs,
  canAttempt,
  executed,
  type Owed,
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
const owed = (changes: Partial<Owed> = {}): Owed => ({ ...executed({ state: 'authorized', id }, 0), ...changes })

test('delivering counts the first attempt before it is made, so that a crash cannot hide it', () => {
  expect(owed()).toEqual({ state: 'owed', id, attempts: 1, nextAttemptAt: 30_000, unclear: true })
})

test('a payment whose agent failed is void, and says why', () => {
  expect(voided({ state: 'authorized', id }, 'no')).toEqual({ state: 'voided', id, error: 'no' })
})

test('D31: attempts come 1, 2, 4 and 8 s apart, a fifth more or less', () => {
  expect([1, 2, 3, 4].map((attempts) => backoffMs(attempts, 0.5))).toEqual([1000, 2000, 4000, 8000])
  expect([backoffMs(1, 0), backoffMs(1, 0.999)]).toEqual([800, 1200])
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
    expect(next).toMatchObject({ state: 'owed', attempts: 1, nextAttemptAt: 2000, unclear: true, error: 'timed out' })
    expect((next as Owed).txHash).toBeUndefined()
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
          expect(payment.nextAttemptAt - now).toBeLessThanOrEqual(60_000)
          now = payment.nextAttemptAt + waitMs
          let next: Owed = payment
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
