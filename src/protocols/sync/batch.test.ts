import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeBatch, encodeBatch, splitBatches } from './batch.ts'

const limits = { itemsMax: 8, itemBytesMax: 64 }
const items = fc.array(fc.uint8Array({ minLength: 1, maxLength: 64 }), { maxLength: 8 })

test('a batch decodes to what was encoded (property)', () => {
  fc.assert(
    fc.property(items, (list) => {
      expect(decodeBatch(encodeBatch(list), limits).map((item) => [...item])).toEqual(list.map((item) => [...item]))
    }),
  )
})

test('any bytes decode to a list within the limits or are refused (property)', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      try {
        const list = decodeBatch(bytes, limits)
        expect(encodeBatch(list)).toEqual(Buffer.from(bytes))
      } catch (error) {
        expect(error).toMatchObject({ code: 'BATCH_INVALID' })
      }
    }),
  )
})

test.each([
  ['a cut length', [0, 0, 1]],
  ['a cut envelope', [0, 0, 0, 2, 1]],
  ['an empty envelope', [0, 0, 0, 0]],
  ['an announced length over the limit', [0xff, 0xff, 0xff, 0xff, 1]],
  ['more envelopes than allowed', Array.from({ length: 9 }, () => [0, 0, 0, 1, 7]).flat()],
])('T8 refuses %s', (_, bytes) => {
  expect(() => decodeBatch(Uint8Array.from(bytes), limits)).toThrow(expect.objectContaining({ code: 'BATCH_INVALID' }))
})

test('batches keep within both limits, in order, and lose nothing (property)', () => {
  fc.assert(
    fc.property(
      items,
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 68, max: 200 }),
      (list, itemsMax, bytesMax) => {
        const batches = [...splitBatches(list, { itemsMax, bytesMax })]
        expect(batches.flat()).toEqual(list)
        for (const batch of batches) {
          expect(batch.length).toBeLessThanOrEqual(itemsMax)
          expect(encodeBatch(batch).length).toBeLessThanOrEqual(bytesMax)
        }
      },
    ),
  )
})
