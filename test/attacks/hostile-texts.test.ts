import { createServer } from 'node:http'
import { expect, test } from 'vitest'
import { redact as redactLlm } from '../../src/agents/llm-error.ts'
import { parseTemplate } from '../../src/buying/workflow/template.ts'
import { createChain } from '../../src/chain/chain.ts'
import { redact } from '../../src/chain/redact.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { outcomeOf } from '../../src/payments/facilitator.ts'
import { ECHO, echo, startVictim, within } from '../support/attack.ts'
import { expectBearable } from '../support/honest-calls.ts'
import { listen } from '../support/loopback.ts'
import { usdc } from '../support/payments.ts'
import { startTestHost, whereIs } from '../support/test-host.ts'

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

test.each(readers)('%s is read in linear time, whatever its contents', (_what, read) => {
  for (const piece of pieces) {
    const text = piece.repeat(LENGTH / piece.length)
    const start = performance.now()
    read(text)
    read(`${text}!`)
    expect([piece, performance.now() - start < LIMIT_MS]).toEqual([piece, true])
  }
})

test('an RPC that answers with such texts does not slow a node’s other peers', { retry: 2 }, async () => {
  let asked = 0
  const rpc = createServer((_request, response) => {
    const message = pieces[asked++ % pieces.length]!.repeat(40_000)
    response.end(JSON.stringify({ jsonrpc: '2.0', id: asked, error: { code: -32_000, message } }))
  })
  const rpcUrl = `http://127.0.0.1:${await listen(rpc)}`
  const chain = createChain(
    { network: usdc.network, asset: usdc.address, rpcUrl, timeoutMs: 30_000 },
    { logger: silentLogger },
  )
  const [victim, honest] = [await startVictim(), await startTestHost()]
  try {
    const stream = await honest.openStream(whereIs(victim, 'tcp'), ECHO, within(60_000))
    await expectBearable(
      () => echo(stream),
      async () => {
        for (let count = 0; count < 2 * pieces.length; count++) await chain.usdcBalance(usdc.address).catch(() => {})
      },
    )
    expect(asked).toBeGreaterThan(pieces.length)
  } finally {
    await Promise.all([honest.stop(), victim.stop()])
    rpc.closeAllConnections()
    rpc.close()
  }
})
