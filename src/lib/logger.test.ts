import { expect, test, vi } from 'vitest'
import { lazyLogger, silentLogger } from './logger.ts'

test('a lazy logger is made with the first line at its level, once, its children with theirs', () => {
  const info = vi.fn()
  const child = vi.fn(() => silentLogger)
  const make = vi.fn(() => ({ ...silentLogger, info, child }))
  const logger = lazyLogger('info', make)
  const part = logger.child({ part: 'http' })
  logger.debug({}, 'too small')
  part.debug({}, 'too small')
  expect(make).not.toHaveBeenCalled()
  logger.info({ count: 1 }, 'first')
  logger.info({}, 'second')
  expect(info.mock.calls).toEqual([
    [{ count: 1 }, 'first'],
    [{}, 'second'],
  ])
  expect(child).not.toHaveBeenCalled()
  part.warn({}, 'third')
  expect(child).toHaveBeenCalledExactlyOnceWith({ part: 'http' })
  expect(make).toHaveBeenCalledOnce()
})
