import fc from 'fast-check'
import { expect, test } from 'vitest'
import { wordCount } from './word-count.ts'

const signal = new AbortController().signal
const count = async (text: string) => JSON.parse(await wordCount(text, signal))

test('figures of an English text', async () => {
  const text = 'The seller signs the listing. The buyer reads the listing!\n\nA listing has a price of 0.05 USDC 🚀.\n'
  expect(await count(text)).toEqual({
    characters: 98,
    lines: 3,
    paragraphs: 2,
    bytes: 101,
    words: 18,
    different_words: 12,
    sentences: 3,
    reading_minutes: 0.1,
    top_words: expect.arrayContaining([{ word: 'listing', count: 3 }]),
  })
  const { top_words } = await count(text)
  expect(top_words[0]).toEqual({ word: 'listing', count: 3 })
  expect(top_words.map(({ word }: { word: string }) => word)).not.toContain('the')
})

test('Chinese and Japanese words are found without spaces', async () => {
  expect(await count('我喜欢学习。')).toMatchObject({ characters: 6, words: 3, sentences: 1 })
})

test.each([
  ['', 0, 0],
  ['a', 1, 1],
  ['a\n', 1, 1],
  ['a\r\nb', 2, 1],
  ['a\rb\r', 2, 1],
  ['a\n\nb', 3, 2],
  ['a\n \t\nb\n', 3, 2],
  ['\n\n', 2, 0],
  ['\r\n\r\na', 3, 1],
])('%j has %i lines and %i paragraphs', async (text, lines, paragraphs) => {
  expect(await count(text)).toMatchObject({ lines, paragraphs })
})

test('characters, bytes and lines are right for any text', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: fc.constantFrom('a', 'ä', '😀', ' ', '\n', '\r', '。') }), async (text) => {
      const lines = text === '' ? 0 : text.replace(/(?:\r\n|\r|\n)$/, '').split(/\r\n|\r|\n/).length
      expect(await count(text)).toMatchObject({ characters: [...text].length, bytes: Buffer.byteLength(text), lines })
    }),
  )
})

test('counting stops when it is canceled', async () => {
  const controller = new AbortController()
  const running = wordCount('many words '.repeat(200_000), controller.signal)
  controller.abort(new Error('enough'))
  await expect(running).rejects.toThrow('enough')
})
