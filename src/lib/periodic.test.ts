import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { periodic } from './periodic.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const options = { name: 'work', firstMs: 10, everyMs: 100 }

test('works first after firstMs and then every so often, until it is stopped', async () => {
  const work = vi.fn(async () => {})
  const service = periodic(options, { work, onError: () => {} })
  await service.start()
  await vi.advanceTimersByTimeAsync(9)
  expect(work).toHaveBeenCalledTimes(0)
  await vi.advanceTimersByTimeAsync(201)
  expect(work).toHaveBeenCalledTimes(3)
  await service.stop()
  await vi.advanceTimersByTimeAsync(10_000)
  expect(work).toHaveBeenCalledTimes(3)
})

test('never works twice at once, and stopping waits for the work under way', async () => {
  const gate = Promise.withResolvers<void>()
  const work = vi.fn(() => gate.promise)
  const service = periodic(options, { work, onError: () => {} })
  await service.start()
  await vi.advanceTimersByTimeAsync(10_000)
  expect(work).toHaveBeenCalledTimes(1)
  let stopped = false
  const stopping = service.stop().then(() => {
    stopped = true
  })
  await vi.advanceTimersByTimeAsync(0)
  expect(stopped).toBe(false)
  gate.resolve()
  await stopping
  await vi.advanceTimersByTimeAsync(10_000)
  expect(work).toHaveBeenCalledTimes(1)
})

test('an error is told, and the next turn comes all the same', async () => {
  const onError = vi.fn()
  const work = vi.fn(async () => {
    throw new Error('no')
  })
  const service = periodic(options, { work, onError })
  await service.start()
  await vi.advanceTimersByTimeAsync(110)
  expect(onError).toHaveBeenCalledTimes(2)
  await service.stop()
})

test('a turn that is asked for comes soon, once for all who ask', async () => {
  const gate = Promise.withResolvers<void>()
  const work = vi.fn(async () => {
    if (work.mock.calls.length === 2) await gate.promise
  })
  const service = periodic({ ...options, everyMs: 60_000 }, { work, onError: () => {} })
  service.soon()
  await service.start()
  await vi.advanceTimersByTimeAsync(10)
  expect(work).toHaveBeenCalledTimes(1)

  for (let ms = 0; ms < 100; ms += 10) {
    service.soon()
    await vi.advanceTimersByTimeAsync(10)
  }
  expect(work).toHaveBeenCalledTimes(2)
  // While it works, the next one is asked for.
  service.soon()
  await vi.advanceTimersByTimeAsync(1000)
  expect(work).toHaveBeenCalledTimes(2)
  gate.resolve()
  await vi.advanceTimersByTimeAsync(100)
  expect(work).toHaveBeenCalledTimes(3)

  await vi.advanceTimersByTimeAsync(59_999)
  expect(work).toHaveBeenCalledTimes(3)
  await service.stop()
  service.soon()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(work).toHaveBeenCalledTimes(3)
})
