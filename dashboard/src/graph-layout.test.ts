import { expect, test } from 'vitest'
import { layOut } from './graph-layout.ts'

test('a step stands in the column after the last it waits for, and no two in one place', () => {
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

test('a circle, or a step that nobody knows, hangs nothing', () => {
  const circle = [
    { id: 'a', depends_on: ['b'] },
    { id: 'b', depends_on: ['a', 'gone'] },
  ]
  expect(layOut(circle)).toHaveLength(2)
  expect(layOut([])).toEqual([])
})
