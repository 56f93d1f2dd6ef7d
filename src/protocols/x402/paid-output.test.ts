import fc from 'fast-check'
import { expect, test } from 'vitest'
import { HandClock } from '../../../test/support/hand-clock.ts'
import { until } from '../../../test/support/until.ts'
import { priceOfUnits, wordsIn } from '../../payments/pricing.ts'
import type { Pricing } from '../../schema/pricing.ts'
import { Meter } from './meter.ts'
import { PaidOutput } from './paid-output.ts'

const pricing: Pricing = { per_1k_output_tokens: 10_000n, max: 1_000n }

function output({ granted = 50n, waitMs = 60_000, prices = pricing } = {}) {
  const clock = new HandClock()
  const meter = new Meter(prices, 'task', clock)
  meter.start()
  const seen: [string, bigint][] = []
  let cuts = 0
  const show = (text: string, charged: bigint) => void seen.push([text, charged])
  const paid = new PaidOutput({ pricing: prices, meter, granted, waitMs, show, cut: () => void cuts++ })
  return { paid, seen, meter, clock, cuts: () => cuts }
}

test('ADR-37 a piece that is not covered waits, asks, and is shown when its buyer has raised the ceiling', async () => {
  const { paid, seen } = output({ granted: 20n })
  expect(paid.push('one')).toBeUndefined()
  expect(paid.push(' two')).toBeUndefined()
  const waiting = paid.push(' three')
  expect(seen).toEqual([
    ['one', 10n],
    [' two', 20n],
    ['', 30n],
  ])
  paid.raised(29n)
  expect(seen.at(-1)).toEqual(['', 30n])
  paid.raised(30n)
  await waiting
  expect(seen.at(-1)).toEqual([' three', 30n])
  expect(paid.charge).toEqual({ amount: 30n, units: { output_tokens: 3 } })
})

test('ADR-37 output that nobody pays on for ends with what was paid for, and ceilings that rise too little buy no time', async () => {
  const { paid, seen, cuts } = output({ granted: 10n, waitMs: 40 })
  paid.push('one')
  const waiting = paid.push(' two')
  const raises = setInterval(() => paid.raised(paid.granted + 1n), 5)
  const capped = () => paid.granted >= 18n && clearInterval(raises)
  await until(() => {
    capped()
    return cuts() === 1
  })
  clearInterval(raises)
  await waiting
  expect(paid).toMatchObject({ shown: 'one', isCut: true })
  expect(paid.charge.amount).toBe(10n)
  const { length } = seen
  paid.raised(1_000n)
  expect(paid.push(' three')).toBeUndefined()
  expect(seen).toHaveLength(length)
  expect(await paid.finish({ output_tokens: 3 })).toBe(false)
})

test('ADR-37 what a call has cost in all is covered before its result leaves', async () => {
  const { paid, seen } = output({ granted: 20n })
  paid.push('one')
  const isPaid = paid.finish({ output_tokens: 40 })
  expect(seen.at(-1)).toEqual(['', 400n])
  paid.raised(400n)
  expect(await isPaid).toBe(true)
  const other = output({ granted: 20n, waitMs: 1 })
  other.paid.push('one')
  expect(await other.paid.finish({ output_tokens: 40 })).toBe(false)
  expect(other.paid.charge.amount).toBe(10n)
})

test('ADR-37 time in which output waits for its buyer is not charged', async () => {
  const prices: Pricing = { per_call: 5n, per_second: 10n, per_1k_output_tokens: 10_000n, max: 1_000n }
  const { paid, meter, clock } = output({ granted: 15n, prices })
  clock.advance(100)
  paid.push('one')
  paid.push(' two')
  clock.advance(9_000)
  paid.raised(1_000n)
  clock.advance(100)
  meter.pause()
  expect(meter.units(2)).toEqual({ output_tokens: 2, milliseconds: 200 })
})

test('ADR-37 whatever comes in whatever pieces, no more is shown than is covered, and no more charged than that', () => {
  const step = fc.oneof(
    fc.record({ push: fc.string({ maxLength: 30 }) }),
    fc.record({ raise: fc.bigInt({ min: -5n, max: 300n }) }),
  )
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 200n }), fc.array(step, { maxLength: 40 }), (granted, steps) => {
      const { paid, seen } = output({ granted })
      let pushed = ''
      let pieces = 0
      for (const one of steps) {
        if ('push' in one) {
          pushed += one.push
          if (one.push !== '') pieces++
          void paid.push(one.push)
        } else paid.raised(paid.granted + one.raise)
        expect(pushed.startsWith(paid.shown)).toBe(true)
        const { amount, units } = paid.charge
        expect(amount <= paid.granted && amount <= priceOfUnits(pricing, units)).toBe(true)
        expect(units.output_tokens! <= Math.max(pieces, wordsIn(paid.shown))).toBe(true)
        expect(seen.every(([text, charged]) => text === '' || charged <= paid.granted)).toBe(true)
      }
      paid[Symbol.dispose]()
    }),
  )
})
