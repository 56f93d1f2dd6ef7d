import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { openAiMeters } from '../ledger/door-meters.ts'
import { CodedError } from '../lib/errors.ts'
import { Meters } from '../lib/meters.ts'
import { DoorError } from './door-error.ts'
import { DoorMeter, outcomeOf } from './door-meter.ts'

const refusal = (status: number, code: string) => new DoorError('no', { status, type: 'error', code })

test.each([
  [refusal(400, 'invalid_value'), 'refused'],
  [refusal(402, 'budget_exceeded'), 'refused'],
  [refusal(429, 'rate_limit_exceeded'), 'limited'],
  [refusal(502, 'upstream_error'), 'failed'],
  [refusal(502, 'paid_but_failed'), 'paid_but_failed'],
  [new CodedError('OVER_BUDGET', 'too dear'), 'refused'],
  [new CodedError('OVERLOADED', 'later'), 'limited'],
  [new CodedError('AGENT_FAILED', 'it failed'), 'failed'],
  [new TypeError('a fault of the node'), 'failed'],
])('%s counts as %s', (error, outcome) => {
  expect(outcomeOf(error)).toBe(outcome)
})

test('a request is counted once, with its time, and no longer runs after its end', async () => {
  const meters = new Meters()
  const clock = new HandClock()
  const meter = new DoorMeter(meters, clock)
  const running = () => meters.counts(openAiMeters.running)[0]!.value
  await meter.measure(async () => {
    expect(running()).toBe(1)
    clock.advance(2_000)
    return 'answered'
  })
  const thrown = refusal(429, 'rate_limit_exceeded')
  await expect(meter.measure(() => Promise.reject(thrown))).rejects.toBe(thrown)
  expect(running()).toBe(0)
  const counted = meters.counts(openAiMeters.requests).map(({ labels, value }) => [labels.outcome, value])
  expect(counted).toEqual([
    ['answered', 1],
    ['limited', 1],
  ])
  expect(meters.histogram(openAiMeters.seconds).sum).toBe(2)
})
