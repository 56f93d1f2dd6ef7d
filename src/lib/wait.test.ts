import { expect, test } from 'vitest'
import { orAborted, pause, poll, within } from './wait.ts'

const never = new Promise<never>(() => {})

test('waits for work no longer than the limit, and rethrows its error', async () => {
  expect(await within(1_000, Promise.resolve())).toBe(true)
  expect(await within(1, never)).toBe(false)
  await expect(within(1_000, Promise.reject(new Error('failed')))).rejects.toThrow('failed')
})

test('a pause says whether it was cut short', async () => {
  expect(await pause(1)).toBe(true)
  expect(await pause(60_000, AbortSignal.timeout(1))).toBe(false)
})

test('hands over a value that comes after the abort', async () => {
  const late = Promise.withResolvers<string>()
  const stopping = new AbortController()
  const closed: string[] = []
  const waiting = orAborted(late.promise, stopping.signal, (value) => closed.push(value))
  stopping.abort(new Error('stopped'))
  await expect(waiting).rejects.toThrow('stopped')
  late.resolve('stream')
  await expect.poll(() => closed).toEqual(['stream'])
})

test('asks until there is a value, the limit has passed or the signal aborts', async () => {
  const { signal } = new AbortController()
  let asked = 0
  expect(await poll(() => (++asked === 3 ? 'there' : undefined), { limitMs: 60_000, everyMs: 1, signal })).toBe('there')
  expect(await poll(() => undefined, { limitMs: 3, everyMs: 1, signal })).toBeUndefined()
  const options = { limitMs: 60_000, signal: AbortSignal.timeout(1) }
  await expect(poll(() => undefined, options)).rejects.toThrow('timeout')
})
