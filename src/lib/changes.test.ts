import { expect, test } from 'vitest'
import { Changes } from './changes.ts'

test('tells every listener, whatever another one throws, until it leaves', () => {
  const changes = new Changes()
  const heard: string[] = []
  changes.listen(() => {
    throw new Error('mine')
  })
  const leave = changes.listen((id) => heard.push(id))
  changes.tell('a')
  leave()
  changes.tell('b')
  expect(heard).toEqual(['a'])
})

test('waits for a condition, which is asked at once and at each change of that name', async () => {
  const changes = new Changes()
  let asked = 0
  let holds = true
  const until = (options: { limitMs: number; signal?: AbortSignal }) =>
    changes.until(
      'a',
      () => {
        asked++
        return holds
      },
      options,
    )
  await until({ limitMs: 60_000 })
  holds = false
  const waiting = until({ limitMs: 60_000 })
  changes.tell('b')
  await Promise.resolve()
  changes.tell('a')
  await Promise.resolve()
  holds = true
  changes.tell('a')
  await waiting
  expect(asked).toBe(4)
})

test('a change while the condition is asked has it asked once more, and a condition that fails ends the wait', async () => {
  const changes = new Changes()
  let state = 'open'
  const slowly = async () => {
    const seen = state
    await new Promise((resolve) => setImmediate(resolve))
    return seen === 'ended'
  }
  const waiting = changes.until('a', slowly, { limitMs: 60_000 })
  state = 'ended'
  changes.tell('a')
  await waiting
  const away = () => Promise.reject(new Error('away'))
  await expect(changes.until('a', away, { limitMs: 60_000 })).rejects.toThrow('away')
})

test('waits no longer than its limit, nor beyond an abort', async () => {
  const changes = new Changes()
  const never = () => false
  await changes.until('a', never, { limitMs: 5 })
  const controller = new AbortController()
  const waiting = changes.until('a', never, { limitMs: 60_000, signal: controller.signal })
  controller.abort()
  await waiting
  await changes.until('a', never, { limitMs: 60_000, signal: controller.signal })
})
