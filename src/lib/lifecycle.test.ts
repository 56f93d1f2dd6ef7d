import { expect, test } from 'vitest'
import { type Service, ServiceStack, together } from './lifecycle.ts'

function services(...names: string[]) {
  const log: string[] = []
  const all = names.map(
    (name): Service => ({
      name,
      start: async () => void log.push(`+${name}`),
      stop: async () => void log.push(`-${name}`),
    }),
  )
  return { log, all }
}

test('services start in order and stop in reverse, once', async () => {
  const { log, all } = services('a', 'b', 'c')
  const stack = new ServiceStack(all)
  await stack.start()
  await stack.stop()
  await stack.stop()
  expect(log).toEqual(['+a', '+b', '+c', '-c', '-b', '-a'])
})

test('when one fails to start, those before it are stopped and its error is told', async () => {
  const { log, all } = services('a', 'b', 'c')
  all[1]!.start = () => Promise.reject(new Error('port in use'))
  all[0]!.stop = async () => {
    log.push('-a')
    throw new Error('hidden behind the first')
  }
  await expect(new ServiceStack(all).start()).rejects.toThrow('port in use')
  expect(log).toEqual(['+a', '-a'])
})

test('one that fails to stop does not keep the others from stopping', async () => {
  const { log, all } = services('a', 'b', 'c')
  all[1]!.stop = () => Promise.reject(new Error('stuck'))
  const stack = new ServiceStack(all)
  await stack.start()
  await expect(stack.stop()).rejects.toMatchObject({ errors: [expect.objectContaining({ message: 'stuck' })] })
  expect(log).toEqual(['+a', '+b', '+c', '-c', '-a'])
})

test('together: they start in order and stop side by side', async () => {
  const { log, all } = services('a', 'b')
  const gate = Promise.withResolvers<void>()
  all[1]!.stop = async () => {
    await gate.promise
    log.push('-b')
  }
  const both = together('both', all)
  await both.start()
  const stopped = both.stop()
  await Promise.resolve()
  expect(log).toEqual(['+a', '+b', '-a'])
  gate.resolve()
  await stopped
  expect(log).toEqual(['+a', '+b', '-a', '-b'])
})

test('together: every failure to stop is told', async () => {
  const { all } = services('a', 'b')
  for (const service of all) service.stop = () => Promise.reject(new Error(service.name))
  const both = together('both', all)
  await both.start()
  await expect(both.stop()).rejects.toMatchObject({ errors: [{ message: 'a' }, { message: 'b' }] })
})
