import { expect, test } from 'vitest'
import { HandClock } from '../../../test/support/hand-clock.ts'
import { randomHex } from '../../../test/support/payments.ts'
import { UnpaidSteps } from './unpaid-steps.ts'

const COST = 1_000n
const hour = 60 * 60_000

function openSteps() {
  const clock = new HandClock()
  const steps = new UnpaidSteps({ cost: COST, ofPayer: 2, ofAll: 3 }, { clock })
  const take = (payer: string, { id = randomHex(), charged = 0n } = {}) => steps.take({ id, payer, charged })
  /** Counts one for good. */
  const send = (...asked: Parameters<typeof take>) => {
    const taken = take(...asked)
    taken?.keep()
    return taken !== undefined
  }
  return { clock, take, send }
}

test('hazard 4.19: one payer gets what one may have, and all together what all may have, in an hour', () => {
  const { clock, send } = openSteps()
  expect([send('0xA'), send('0xa'), send('0xA'), send('0xb'), send('0xb')]).toEqual([true, true, false, true, false])
  clock.advance(hour / 2)
  expect([send('0xa'), send('0xa')]).toEqual([true, false])
  // A clock that is set does not make the hour shorter.
  clock.jump(24 * hour)
  expect([send('0xa'), send('0xb')]).toEqual([false, false])
})

test('what a channel has paid for does not count, once for each time that it has', () => {
  const { send } = openSteps()
  const id = randomHex()
  expect([send('0xa', { id }), send('0xa', { id, charged: COST - 1n })]).toEqual([true, true])
  const paid = { id, charged: 2n * COST - 1n }
  expect([send('0xa', paid), send('0xa', paid)]).toEqual([true, false])
})

test('what did not happen is given back, and what was paid for it too', () => {
  const { take, send } = openSteps()
  for (let tries = 0; tries < 10; tries++) {
    using taken = take('0xa')
    expect(taken).toBeDefined()
  }
  const paid = { id: randomHex(), charged: COST }
  for (let tries = 0; tries < 10; tries++) {
    using taken = take('0xb', paid)
    expect(taken).toBeDefined()
  }
  expect([send('0xb', paid), send('0xa'), send('0xa'), send('0xa')]).toEqual([true, true, true, false])
})
