import fc from 'fast-check'
import { expect, test } from 'vitest'
import { skeletonOf } from './skeleton.ts'

test.each([
  ['Acme Contract Review', 'Аcmе Соntrасt Rеviеw', 'Cyrillic'],
  ['HELP DESK', 'ΗΕLΡ DΕЅΚ', 'Greek and Cyrillic capitals'],
  ['help desk', 'hеlρ dεsκ', 'Greek small letters'],
  ['Acme', 'Ａｃｍｅ', 'fullwidth'],
  ['Acme', '𝐀𝓬𝔪𝖊', 'mathematical letters'],
  ['Acme', 'Ácmé', 'accents'],
  ['Acme', 'A\u200bc\u00adm\u2060e', 'characters without width'],
  ['Acme AI', 'acme-ai.', 'case, space, punctuation'],
  ['AcmeAI', 'AcmeAl', 'capital I as small l'],
  ['Illinois', 'lllinois', 'I as l'],
  ['Goog1e', 'Google', 'one as l'],
  ['Bot 100', 'Bot l00', 'l as one'],
  ['OpenCode', '0penC0de', 'zero as o'],
  ['modern', 'modem', 'rn as m'],
  ['wave', 'vvave', 'vv as w'],
  ['naïve', 'nai\u0308ve', 'composed and not'],
])('%s and %s are one: %s', (a, b) => {
  expect(skeletonOf(a)).toBe(skeletonOf(b))
})

test.each([
  ['Acme', 'Apex'],
  ['Summary', 'Translator'],
  ['GPT-4', 'GPT-5'],
  ['合同', '摘要'],
  ['🤖', '🦊'],
  ['Ж', 'Д'],
])('%s and %s are two', (a, b) => {
  expect(skeletonOf(a)).not.toBe(skeletonOf(b))
})

test('T8 every text has a skeleton, not empty where the text is not', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', minLength: 1, maxLength: 80 }), (name) => {
      expect(skeletonOf(name).length).toBeGreaterThan(0)
    }),
  )
  expect(skeletonOf('\ud800')).not.toBe('')
  expect(skeletonOf('ﷺ'.repeat(80)).length).toBeLessThan(80 * 20)
})

test('case, spaces and accents never matter', () => {
  const words = fc.stringMatching(/^[a-zA-Z0-9 ]{1,40}$/).filter((text) => /[a-zA-Z0-9]/.test(text))
  fc.assert(
    fc.property(words, (name) => {
      expect(skeletonOf(name.toLowerCase().replaceAll(' ', '-'))).toBe(skeletonOf(name))
      expect(skeletonOf(name.replaceAll('e', 'é'))).toBe(skeletonOf(name))
    }),
  )
})
