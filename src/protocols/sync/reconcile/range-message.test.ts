import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readVectors } from '../../../../test/support/read-vectors.ts'
import { compareKeys, END, KEY_BYTES, START, TIME_MAX } from './element-key.ts'
import {
  BOUND_BYTES_MAX,
  decodeRanges,
  encodeRanges,
  LIST_IDS_MAX,
  RANGES_MAX,
  type Range,
  sizeOfAll,
} from './range-message.ts'
import { FINGERPRINT_BYTES, SHORT_ID_BYTES } from './session-hash.ts'

type WrittenRange = { mode: Range['mode']; until: string; fingerprint?: string; lacks?: string; ids?: string[] }
const vectors = readVectors<{
  messages: { about: string; ranges: WrittenRange[]; message: string }[]
  refused: { about: string; message: string }[]
}>('reconciliation')

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, 'hex'))
const INVALID = expect.objectContaining({ code: 'RECONCILE_INVALID' })

function readRange({ mode, until, fingerprint = '', lacks = '', ids = [] }: WrittenRange): Range {
  const names = ids.map((id) => Number.parseInt(id, 16))
  const all = { mode, until: bytesOf(until), fingerprint: bytesOf(fingerprint), lacks: bytesOf(lacks), ids: names }
  return all as Range
}

function writeRange(range: Range): WrittenRange {
  const written: WrittenRange = { mode: range.mode, until: hex(range.until) }
  if ('fingerprint' in range) written.fingerprint = hex(range.fingerprint)
  if ('lacks' in range) written.lacks = hex(range.lacks)
  if ('ids' in range) written.ids = range.ids.map((id) => id.toString(16).padStart(2 * SHORT_ID_BYTES, '0'))
  return written
}

const bound = fc
  .tuple(
    fc.oneof(fc.nat(40), fc.integer({ min: 0, max: TIME_MAX })),
    fc.oneof(fc.constant(new Uint8Array()), fc.uint8Array({ maxLength: 16 })),
  )
  .map(([time, hash]) => {
    const until = new Uint8Array(KEY_BYTES)
    for (let index = 5, rest = time; index >= 0; index--, rest = Math.floor(rest / 256)) until[index] = rest
    until.set(hash, 6)
    return until
  })
const ids = fc.array(fc.nat(2 ** 48 - 1), { maxLength: 20 }).map((list) => list.sort((a, b) => a - b))
const lacks = fc
  .uint8Array({ maxLength: LIST_IDS_MAX / 8 })
  .map((bytes) => bytes.slice(0, bytes.findLastIndex(Boolean) + 1))
const content = fc.oneof(
  fc.record({ mode: fc.constantFrom('pass' as const, 'equal' as const) }),
  fc.record({
    mode: fc.constant('fingerprint' as const),
    fingerprint: fc.uint8Array({ minLength: FINGERPRINT_BYTES, maxLength: FINGERPRINT_BYTES }),
  }),
  fc.record({ mode: fc.constant('list' as const), ids }),
  fc.record({ mode: fc.constant('answer' as const), lacks, ids }),
)

/** Ranges as an honest side may send them. */
const ranges = fc
  .tuple(fc.array(bound, { maxLength: 12 }), fc.array(content, { maxLength: 13 }))
  .map(([bounds, contents]) => {
    const above = bounds.filter((key) => key.some((byte) => byte !== 0)).sort(compareKeys)
    const untils = [...above.filter((key, index) => index === 0 || compareKeys(key, above[index - 1]!) > 0), END]
    const made = contents.slice(0, untils.length).map((said, index) => ({ ...said, until: untils[index]! }) as Range)
    const kept = made.filter(({ mode }, index) => mode !== 'pass' || (index > 0 && made[index - 1]!.mode !== 'pass'))
    return kept.at(-1)?.mode === 'pass' ? kept.slice(0, -1) : kept
  })

test('ranges are read as they were written (property)', () => {
  fc.assert(
    fc.property(ranges, (list) => {
      expect(decodeRanges(encodeRanges(list)).map(writeRange)).toEqual(list.map(writeRange))
    }),
  )
})

test('the size of a range is told before it is written (property)', () => {
  fc.assert(
    fc.property(ranges, (list) => {
      const sizes = list.map((range, index) => sizeOfAll([range], list[index - 1]?.until ?? START))
      expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(encodeRanges(list).length)
      for (const [index, { mode }] of list.entries()) {
        if (mode === 'pass' || mode === 'equal') expect(sizes[index]).toBeLessThanOrEqual(BOUND_BYTES_MAX)
      }
    }),
  )
})

const noise = fc.oneof(
  fc.uint8Array({ maxLength: 80 }),
  // True messages with some bytes changed come further.
  fc
    .tuple(ranges.map(encodeRanges), fc.array(fc.tuple(fc.nat(200), fc.nat(255)), { maxLength: 3 }))
    .map(([bytes, edits]) => {
      const edited = bytes.slice()
      for (const [at, value] of edits) if (at < edited.length) edited[at] = value
      return edited
    }),
)

test('T8 any bytes are a message that is written in just this way, or are refused (property)', () => {
  fc.assert(
    fc.property(noise, (bytes) => {
      let list: Range[]
      try {
        list = decodeRanges(bytes)
      } catch (error) {
        expect(error).toEqual(INVALID)
        return
      }
      expect(hex(encodeRanges(list))).toBe(hex(bytes))
      for (const [index, { until }] of list.entries()) {
        if (index > 0) expect(compareKeys(list[index - 1]!.until, until)).toBeLessThan(0)
      }
    }),
    { numRuns: 2000 },
  )
})

test.each(vectors.messages)('message: $about', ({ ranges: written, message }) => {
  expect(hex(encodeRanges(written.map(readRange)))).toBe(message)
  expect(decodeRanges(bytesOf(message)).map(writeRange)).toEqual(written)
})

test.each(vectors.refused)('T8 refuses $about', ({ message }) => {
  expect(() => decodeRanges(bytesOf(message))).toThrow(INVALID)
})

test('T7 refuses more ranges than a message may have', () => {
  const list = Array.from({ length: RANGES_MAX + 1 }, (_, index): Range => {
    const until = new Uint8Array(KEY_BYTES)
    new DataView(until.buffer).setUint32(2, index + 1)
    return { mode: 'equal', until }
  })
  expect(decodeRanges(encodeRanges(list.slice(1)))).toHaveLength(RANGES_MAX)
  expect(() => decodeRanges(encodeRanges(list))).toThrow(INVALID)
})
