import { expect, test } from 'vitest'
import { armFaultPoint, faultPoint } from './fault-point.ts'

test('a fault point does nothing until it is armed, and then only the one that is', () => {
  const reached: string[] = []
  faultPoint('a')
  armFaultPoint('b', () => void reached.push('b'))
  faultPoint('a')
  expect(reached).toEqual([])
  faultPoint('b')
  expect(reached).toEqual(['b'])
})
