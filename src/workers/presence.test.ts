/** T34: when an agent of workers is on the market, if they come and go. */
import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { until } from '../../test/support/until.ts'
import { openWorkshop, task } from '../../test/support/workshop.ts'
import { Presence } from './presence.ts'

const [there, gone] = [new Set(['paint']), new Set<string>()]

function watched() {
  const clock = new HandClock()
  const presence = new Presence(clock)
  /** How often the listing changes while the worker comes and goes: `stays` and `away` in ms. */
  function flaps(times: number, { stays, away }: { stays: number; away: number }): number {
    let changes = 0
    let was = presence.isSteady('paint')
    const look = () => {
      const is = presence.isSteady('paint')
      if (is !== was) changes += 1
      was = is
    }
    for (let count = 0; count < times; count += 1) {
      presence.note(there)
      look()
      clock.advance(stays)
      look()
      presence.note(gone)
      look()
      clock.advance(away)
    }
    return changes
  }
  return { clock, presence, flaps }
}

test('an agent leaves the market with its last worker, and returns with the next', () => {
  const { presence } = watched()
  expect(presence.isSteady('paint')).toBe(false)
  for (const _ of [1, 2, 3]) {
    presence.note(there)
    expect(presence.isSteady('paint')).toBe(true)
    presence.note(gone)
    expect(presence.isSteady('paint')).toBe(false)
  }
})

test.each([
  ['100 times a second', 60_000, { stays: 5, away: 5 }],
  ['every few seconds', 200, { stays: 2_000, away: 1_000 }],
  ['every half minute', 20, { stays: 29_000, away: 1_000 }],
])('T34 a worker that comes and goes %s changes the listing six times in ten minutes at most', (_, times, pace) => {
  expect(watched().flaps(times, pace)).toBe(6)
})

test('T34 the agent returns when a worker has stayed for a minute, and at once when ten minutes were quiet', () => {
  const { clock, presence, flaps } = watched()
  flaps(5, { stays: 100, away: 100 })
  presence.note(there)
  clock.advance(59_999)
  expect(presence.isSteady('paint')).toBe(false)
  // A second worker that comes and goes beside it changes nothing.
  presence.note(there)
  clock.advance(1)
  expect(presence.isSteady('paint')).toBe(true)
  clock.advance(600_000)
  presence.note(gone)
  presence.note(there)
  expect(presence.isSteady('paint')).toBe(true)
})

test('T34 agents of other workers stay where they are', () => {
  const { presence } = watched()
  for (let count = 0; count < 10; count += 1) {
    presence.note(new Set(['print', 'paint']))
    presence.note(new Set(['print']))
  }
  expect([presence.isSteady('print'), presence.isSteady('paint')]).toEqual([true, false])
})

test('T34 what waits for a worker that comes and goes is still run by it', async () => {
  const shop = await openWorkshop({ awayMs: 60_000 })
  for (let count = 0; count < 4; count += 1) {
    const worker = await shop.joined()
    worker.stream.abort(new Error('gone'))
    await until(() => !shop.pool.canRun('paint'))
  }
  const worker = await shop.joined()
  expect([shop.pool.isOffered('paint'), shop.pool.canRun('paint')]).toEqual([false, true])
  const result = shop.pool.run('paint', task('a tree'))
  await worker.send('work.result', { run: await worker.task(), body: '' })
  expect(await result).toBe('')
  shop.clock.advance(60_000)
  expect(shop.pool.isOffered('paint')).toBe(true)
})
