import { expect, test } from 'vitest'
import { FakeSettlement } from '../../test/support/fake-settlement.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { claim } from '../../test/support/payments.ts'
import { silentLogger } from '../lib/logger.ts'
import { withPause } from './facilitator-pause.ts'

test('a facilitator that is away is looked for once a second, however many payments wait for it', async () => {
  const clock = new HandClock()
  const settlement = new FakeSettlement()
  settlement.usual = { moves: false, answer: { kind: 'unreached', reason: 'nobody there' } }
  const log: string[] = []
  const note = (_: object, message: string) => void log.push(message)
  const { settle } = withPause(settlement.facilitator, {
    clock,
    logger: { ...silentLogger, warn: note, info: note },
  })
  const ask = () => {
    const { signed, requirements } = claim(clock.now())
    return settle(signed, requirements, AbortSignal.timeout(1000))
  }
  for (let n = 0; n < 10; n++) expect(await ask()).toMatchObject({ kind: 'unreached' })
  expect(settlement.attempts).toHaveLength(1)
  clock.advance(1000)
  await ask()
  // A clock that was set back does not keep it away for an hour (T16).
  clock.jump(-3_600_000)
  clock.advance(1_000)
  settlement.usual = { moves: true, answer: 'the transaction' }
  expect(await ask()).toMatchObject({ kind: 'settled' })
  expect(await ask()).toMatchObject({ kind: 'settled' })
  expect(log).toEqual(['settlement waits for the facilitator', 'the facilitator is back'])
})
