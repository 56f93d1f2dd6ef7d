import { expect, test } from 'vitest'
import { errorOf } from './sale-answers.ts'

test.each(['busy', 'limited'] as const)('a refusal of kind %s says where the money is', (kind) => {
  const told = (settlement: 'none' | 'unknown' | 'settled') =>
    JSON.parse(errorOf({ kind, reason: 'too much', settlement }).body).error
  expect(told('none')).toMatchObject({ settlement: 'none', detail: expect.stringContaining('nothing was charged') })
  for (const settlement of ['unknown', 'settled'] as const) {
    const { detail } = told(settlement)
    expect(told(settlement)).toMatchObject({ settlement, detail: expect.stringContaining('the same payment again') })
    expect(detail).not.toMatch(/nothing was charged|new payment/)
  }
})
