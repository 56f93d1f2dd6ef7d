import { expect, test } from 'vitest'
import { OPERATOR } from '../schema/caller.ts'
import { OpenCalls } from './open-calls.ts'

const name = { caller: OPERATOR, session: 's', id: 1 }

test('D38 a client cancels its own call, and nobody else’s', () => {
  const calls = new OpenCalls()
  const mine = calls.enter(name)
  const others = [
    calls.enter({ ...name, session: 'other' }),
    calls.enter({ ...name, id: '1' }),
    calls.enter({ ...name, session: undefined }),
    calls.enter({ ...name, caller: { scope: 'spend', tokenId: 'theirs' } }),
  ]
  expect(calls.cancel(name)).toBe(true)
  expect(mine.signal.aborted).toBe(true)
  expect(others.map(({ signal }) => signal.aborted)).toEqual([false, false, false, false])
})

test('D38 where two calls have one name none is canceled, and one that has ended counts no more', () => {
  const calls = new OpenCalls()
  const [one, other] = [calls.enter(name), calls.enter(name)]
  expect([calls.cancel(name), one.signal.aborted, other.signal.aborted]).toEqual([false, false, false])
  one.leave()
  expect([calls.cancel(name), one.signal.aborted, other.signal.aborted]).toEqual([true, false, true])
  other.leave()
  expect(calls.cancel(name)).toBe(false)
})
