import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readVectors } from '../../test/support/read-vectors.ts'
import {
  DATA_BYTES_MAX,
  encodeFrame,
  encodeTextFrame,
  FRAME_BYTES_MAX,
  type Frame,
  FrameDecoder,
  FrameError,
} from './frame.ts'

const type = fc.string({ minLength: 1, maxLength: 32, unit: 'grapheme-ascii' })
const frames = fc.array(fc.record({ type, data: fc.uint8Array({ maxLength: 4096 }) }), { maxLength: 8 })

function cut(bytes: Uint8Array, sizes: readonly number[]): Uint8Array[] {
  const chunks: Uint8Array[] = []
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = Math.max(1, sizes[turn % sizes.length] ?? bytes.length)
    chunks.push(bytes.subarray(at, at + size))
    at += size
  }
  return chunks
}

function decodeAll(chunks: readonly Uint8Array[]): Frame[] {
  const decoder = new FrameDecoder()
  const found: Frame[] = []
  for (const chunk of chunks) {
    decoder.push(chunk)
    for (let frame = decoder.next(); frame !== undefined; frame = decoder.next()) found.push(frame)
  }
  return found
}

test('frames survive any cutting of their bytes', () => {
  fc.assert(
    fc.property(frames, fc.array(fc.nat(700), { minLength: 1 }), (sent, sizes) => {
      const found = decodeAll(cut(Buffer.concat(sent.map(encodeFrame)), sizes))
      expect(found.map((frame) => [frame.type, Buffer.from(frame.data).toString('hex')])).toEqual(
        sent.map((frame) => [frame.type, Buffer.from(frame.data).toString('hex')]),
      )
    }),
  )
})

test('arbitrary bytes, arbitrarily cut, end in frames or a FrameError and never hold more than one frame', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2000 }), fc.array(fc.nat(40), { minLength: 1 }), (bytes, sizes) => {
      const decoder = new FrameDecoder()
      try {
        for (const chunk of cut(bytes, sizes)) {
          decoder.push(chunk)
          while (decoder.next() !== undefined);
          expect(decoder.buffered).toBeLessThanOrEqual(FRAME_BYTES_MAX)
        }
      } catch (error) {
        expect(error).toBeInstanceOf(FrameError)
      }
    }),
    { numRuns: 2000 },
  )
})

test('an announced length costs nothing until its bytes come (T7)', () => {
  const decoder = new FrameDecoder()
  decoder.push(encodeFrame({ type: 'a', data: new Uint8Array(0) }).subarray(0, 3))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(DATA_BYTES_MAX)
  decoder.push(length)
  expect(decoder.next()).toBeUndefined()
  expect(decoder.buffered).toBe(7)
})

test('a large frame sent byte by byte arrives whole (T7)', () => {
  const data = Buffer.alloc(200_000, 'stoa')
  const [frame] = decodeAll(cut(encodeFrame({ type: 'slow', data }), [1]))
  expect(Buffer.compare(frame!.data, data)).toBe(0)
})

test('the header is big-endian', () => {
  expect([...encodeFrame({ type: 'ab', data: Uint8Array.of(7) })]).toEqual([0, 2, 97, 98, 0, 0, 0, 1, 7])
  expect([...encodeTextFrame('ab', 'é')]).toEqual([0, 2, 97, 98, 0, 0, 0, 2, 0xc3, 0xa9])
})

test.each([
  ['an empty type', [0, 0], 'TYPE_LENGTH'],
  ['a type over 128 bytes', [0, 129], 'TYPE_LENGTH'],
  ['data over 8 MiB', [0, 1, 97, 0, 0x80, 0, 1], 'DATA_LENGTH'],
  ['a type that is not UTF-8', [0, 1, 0xff, 0, 0, 0, 0], 'TYPE_NOT_UTF8'],
])('refuses %s before its bytes come (D24)', (_what, bytes, code) => {
  const decoder = new FrameDecoder()
  decoder.push(Uint8Array.from(bytes))
  expect(() => decoder.next()).toThrow(expect.objectContaining({ code }))
})

test('the largest frame passes, one byte more does not (D24)', () => {
  const data = new Uint8Array(DATA_BYTES_MAX)
  expect(decodeAll(cut(encodeFrame({ type: 'x'.repeat(128), data }), [65_536]))[0]?.data.length).toBe(DATA_BYTES_MAX)
  expect(() => encodeFrame({ type: 'x', data: new Uint8Array(DATA_BYTES_MAX + 1) })).toThrow(FrameError)
  expect(() => encodeFrame({ type: 'x'.repeat(129), data: new Uint8Array(0) })).toThrow(FrameError)
})

type Vectors = {
  frames: { about: string; type: string; data: string; frame: string }[]
  refused: { about: string; bytes: string; error: string }[]
  incomplete: { about: string; bytes: string }[]
}
const vectors = readVectors<Vectors>('frames')
const bytesOf = (hex: string) => Buffer.from(hex, 'hex')

test.each(vectors.frames)('$about is written and read as the vectors say', ({ type, data, frame }) => {
  expect(Buffer.from(encodeFrame({ type, data: bytesOf(data) })).toString('hex')).toBe(frame)
  for (const sizes of [[frame.length], [1]]) {
    const [read, ...more] = decodeAll(cut(bytesOf(frame), sizes))
    expect([read?.type, Buffer.from(read!.data).toString('hex'), more]).toEqual([type, data, []])
  }
})

test.each(vectors.refused)('D24: refuses $about', ({ bytes, error }) => {
  expect(() => decodeAll([bytesOf(bytes)])).toThrow(expect.objectContaining({ code: error }))
  expect(() => decodeAll(cut(bytesOf(bytes), [1]))).toThrow(expect.objectContaining({ code: error }))
})

test.each(vectors.incomplete)('waits for more after $about', ({ bytes }) => {
  const decoder = new FrameDecoder()
  decoder.push(bytesOf(bytes))
  expect(decoder.next()).toBeUndefined()
  expect(decoder.buffered).toBe(bytes.length / 2)
})
