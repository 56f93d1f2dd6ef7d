import { expect, test } from 'vitest'
import { createMemoryRelief } from './memory-relief.ts'

const MB = 1024 * 1024

function world() {
  const state = { rss: 100 * MB, utilization: 0, now: 0, collected: 0, hasFreeFile: true }
  const relief = createMemoryRelief({
    rss() {
      if (state.hasFreeFile) return state.rss
      throw Object.assign(new Error('EMFILE: too many open files, uv_resident_set_memory'), { code: 'EMFILE' })
    },
    utilization: () => state.utilization,
    now: () => state.now,
    collect: () => {
      state.collected++
    },
  })
  return { state, relief }
}

test('T7 T19: an idle process frees the memory that a flood left', () => {
  const { state, relief } = world()
  expect(relief.look()).toBe(false)
  Object.assign(state, { rss: 500 * MB, utilization: 0.9 })
  expect(relief.look()).toBe(false)
  state.utilization = 0.01
  expect(relief.look()).toBe(true)
  expect(state.collected).toBe(1)
})

test('small growth triggers no collection, and a useless collection is repeated only after minutes', () => {
  const { state, relief } = world()
  relief.look()
  state.rss = 150 * MB
  expect(relief.look()).toBe(false)
  state.rss = 300 * MB
  expect(relief.look()).toBe(true)
  state.now = 4 * 60_000
  expect(relief.look()).toBe(false)
  state.now = 5 * 60_000
  expect(relief.look()).toBe(true)
})

test('T7 a process whose files are all in use lives on, and frees memory when one is free', () => {
  const { state, relief } = world()
  relief.look()
  Object.assign(state, { rss: 500 * MB, hasFreeFile: false })
  expect(relief.look()).toBe(false)
  state.hasFreeFile = true
  expect(relief.look()).toBe(true)
})
