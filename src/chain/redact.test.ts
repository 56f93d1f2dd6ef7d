import { describe, expect, it } from 'vitest'
import { redact } from './redact.ts'

const url = new URL('https://operator:pass-word@rpc.example/v2/abcDEF123456?key=tok%2Fen789')

describe('redact', () => {
  it.each([
    ['failed: https://rpc.example/v2/abcDEF123456?key=x (timeout)', 'failed: [url] (timeout)'],
    ['see wss://other.example/ws and "http://10.0.0.1:8545"', 'see [url] and "[url]"'],
    ['project abcDEF123456 has no credit', 'project [key] has no credit'],
    ['bad token tok/en789 or tok%2Fen789', 'bad token [key] or [key]'],
    ['operator pass-word', '[key] [key]'],
  ])('takes addresses and keys out of %j (T21)', (text, clean) => {
    expect(redact(text, url)).toBe(clean)
  })

  it('leaves short path parts, which are words and versions, and all else', () => {
    expect(redact('method v2 of execution reverted', url)).toBe('method v2 of execution reverted')
  })

  it('makes one line of at most 200 characters', () => {
    expect(redact('a\r\n\tb', undefined)).toBe('a b')
    expect(redact('x'.repeat(5_000), undefined)).toHaveLength(200)
  })

  it('leaves no part of a key where a long text is cut (T21)', () => {
    for (let before = 1_980; before <= 2_000; before++) {
      const text = `${' '.repeat(before)}abcDEF123456 has no credit ${'x'.repeat(5_000)}`
      expect(redact(text, url)).not.toMatch(/abcDEF/)
    }
  })
})
