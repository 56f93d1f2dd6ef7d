import { expect, test } from 'vitest'
import { layOut } from './graph-layout.ts'

test('a step is in the column after its last dependency, and no two steps overlap', () => {
  const placed = layOut([
    { id: 'read', depends_on: [] },
    { id: 'sum', depends_on: ['read'] },
    { id: 'count', depends_on: ['read'] },
    { id: 'late', depends_on: ['count', 'read'] },
    { id: 'out', depends_on: ['sum', 'late'] },
  ])
  expect(Object.fromEntries(placed.map(({ id, column }) => [id, column]))).toEqual({
    read: 0,
    sum: 1,
    count: 1,
    late: 2,
    out: 3,
  })
  expect(new Set(placed.map(({ column, row }) => `${column}/${row}`)).size).toBe(placed.length)
})

test('a circle or an unknown step does not hang the layout', () => {
  const circle = [
    { id: 'a', depends_on: ['b'] },
    { id: 'b', depends_on: ['a', 'gone'] },
  ]
  expect(layOut(circle)).toHaveLength(2)
  expect(layOut([])).toEqual([])
})
