import { expect, test } from 'vitest'
import { redact as redactLlm } from '../../src/agents/llm-error.ts'
import { redact } from '../../src/chain/redact.ts'
import { parseTemplate } from '../../src/market/workflow/template.ts'
import { outcomeOf } from '../../src/payments/facilitator.ts'

/*
 * T32: text from outside is matched in a time that grows with its length and no faster. A pattern that is quadratic takes half a
 * minute for these.
 */

const LENGTH = 100_000
const LIMIT_MS = 3_000
const pieces = ['a', ' ', '/', ':', '://', 'a:', 'http://', 'sk-', '{{', '{{a', '\\', '"', '\n', '\r', '0x', '\u0000']
const url = new URL('https://rpc.example/v2/abcDEF123456?key=tok%2Fen789')

const readers: [string, (text: string) => unknown][] = [
  ['the error of an RPC', (text) => redact(text, url)],
  ['the error of a model provider', (text) => redactLlm(text, 'sk-secret-key')],
  [
    'the reason of a facilitator',
    (text) => outcomeOf({ status: 400, text: JSON.stringify({ success: false, errorReason: text }) }),
  ],
  ['the answer of a facilitator', (text) => outcomeOf({ status: 200, text })],
  ['a template of a workflow', (text) => tried(() => parseTemplate(text))],
]

function tried(work: () => unknown): void {
  try {
    work()
  } catch {
    // A refusal is an answer too.
  }
}

test.each(readers)('%s is read in linear time, whatever it says', (_what, read) => {
  for (const piece of pieces) {
    const text = piece.repeat(LENGTH / piece.length)
    const start = performance.now()
    read(text)
    read(`${text}!`)
    expect([piece, performance.now() - start < LIMIT_MS]).toEqual([piece, true])
  }
})
