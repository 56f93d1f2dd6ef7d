/** T36 D53: runs that strangers watch over HTTP: paid before they begin, and never lost after that. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodePaymentResponseHeader } from '@x402/core/http'
import { verifyReceiptSignatureEIP712 } from '@x402/extensions/offer-receipt'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { AgentFunction } from '../../src/agents/function-agent.ts'
import { fetchBuyer, oldFetchBuyer } from '../support/http-buyers.ts'
import { send, sendTask, signFor, termsAt } from '../support/public-seller.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const PRICE = 20_000n
let devnet: Devnet
let seller: TestNode
let home: string

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-stream-'))
  devnet = await startDevnet()
  const walletKey = devnet.wallets.seller.privateKey
  seller = await startTestNode({ devnet, walletKey, dataDir: join(home, 'seller'), public: { port: 0 } })
})
afterAll(async () => {
  await seller?.stop()
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

async function sell(name: string, run: AgentFunction, price = PRICE): Promise<string> {
  const definition = { name, description: 'Shows its work', price }
  const { id } = await seller.node.registerAgent(definition, { persist: false, run })
  return `${seller.publicUrl}/x402/${id}/stream`
}

const key = () => devnet.wallets.buyer.privateKey
const earned = () => devnet.chain.balanceOf(devnet.wallets.seller.address)
const sign = async (url: string) => signFor(await termsAt(url), key())

/** The events of an answer. */
function eventsIn(text: string): { event: string; data: unknown }[] {
  const blocks = text.split('\n\n').filter((block) => block.startsWith('event: '))
  return blocks.map((block) => {
    const [event = '', data = ''] = block.split('\n').map((line) => line.replace(/^\w+: /, ''))
    return { event, data: JSON.parse(data) as unknown }
  })
}

const words: AgentFunction = (task, { onOutput }) => {
  for (const word of task.split(' ')) onOutput?.(`${word} `)
  return `${task} `
}

test.each([
  ['@x402/fetch', async () => fetchBuyer(key())],
  ['x402-fetch, of v1', () => oldFetchBuyer(key())],
])('%s watches a run that it has paid for before the first byte', async (_, buyer) => {
  const url = await sell('words', words)
  expect((await termsAt(url)).accepts).toMatchObject([{ scheme: 'exact', extra: { paymentFlow: 'upfront' } }])
  const before = await earned()
  const { status, body, headers, settled } = await (await buyer())(url, { task: 'one two three' })
  expect([status, headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8'])
  expect(settled).toMatchObject({ success: true, transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/) })
  const events = eventsIn(body)
  const shown = events.filter(({ event }) => event === 'output').map(({ data }) => (data as { text: string }).text)
  expect(shown.join('')).toBe('one two three ')
  const last = events.at(-1)!
  expect(last).toMatchObject({ event: 'result', data: { result: 'one two three ', payment: { success: true } } })
  const { extensions } = (last.data as { payment: { extensions: Record<string, { info: { receipt: never } }> } })
    .payment
  const { signer, payload } = await verifyReceiptSignatureEIP712(extensions['offer-receipt']!.info.receipt)
  expect([signer, payload.resourceUrl]).toEqual([devnet.wallets.seller.address, url])
  expect((await earned()) - before).toBe(PRICE)
})

test('a stream that breaks off loses nothing: the same request gets the result, and pays no second time', async () => {
  const { promise: gate, resolve: open } = Promise.withResolvers<void>()
  let runs = 0
  const url = await sell('slow', async (task, { onOutput }) => {
    runs++
    onOutput?.('begun')
    await gate
    return `done: ${task}`
  })
  const headers = { ...(await sign(url)), 'content-type': 'text/plain' }
  const leaving = new AbortController()
  const response = await fetch(url, { method: 'POST', headers, body: 'watch', signal: leaving.signal })
  expect(decodePaymentResponseHeader(response.headers.get('payment-response')!)).toMatchObject({ success: true })
  const { value } = await response.body!.getReader().read()
  expect(new TextDecoder().decode(value)).toContain('begun')
  leaving.abort()
  const before = await earned()
  const again = send(url, { headers, body: 'watch' })
  open()
  expect(eventsIn((await again).text)).toMatchObject([{ event: 'result', data: { result: 'done: watch' } }])
  expect(eventsIn((await send(url, { headers, body: 'watch' })).text)).toMatchObject([{ event: 'result' }])
  expect([runs, (await earned()) - before]).toEqual([1, 0n])
  // The payment of a stream buys nothing at the plain address.
  const plain = await send(url.replace('/stream', ''), { headers, body: 'watch' })
  expect(plain.status).toBe(409)
})

test('an agent that fails after it was paid owes its work: the same request runs it again', async () => {
  let isBroken = true
  const url = await sell('breaks', (task, { onOutput }) => {
    onOutput?.('some ')
    if (isBroken) throw new Error('out of order')
    return `repaired: ${task}`
  })
  const headers = await sign(url)
  const before = await earned()
  const failed = await sendTask(url, 'try', headers)
  const last = eventsIn(failed.text).at(-1)
  expect(last).toMatchObject({ event: 'error', data: { error: { code: 'AGENT_FAILED', settlement: 'settled' } } })
  expect(failed.text).not.toContain('out of order')
  isBroken = false
  const isGiven = async () => eventsIn((await sendTask(url, 'try', headers)).text)[0]?.event === 'result'
  await until(isGiven, { everyMs: 200 })
  expect((await earned()) - before).toBe(PRICE)
})

test('a stream that is not paid as asked is refused before it begins', async () => {
  const url = await sell('words', words)
  const forged = await signFor(await termsAt(url), key(), (sent) => ({
    ...sent,
    payload: { ...sent.payload, signature: `0x${'11'.repeat(65)}` },
  }))
  const refused = await sendTask(url, 'x', forged)
  expect([refused.status, refused.headers.get('content-type')]).toEqual([402, 'application/json; charset=utf-8'])
})

test('a free agent shows its work to everybody', async () => {
  const url = await sell('free', words, 0n)
  const events = eventsIn((await sendTask(url, 'a b')).text)
  expect(events.at(-1)).toEqual({ event: 'result', data: { result: 'a b ' } })
  expect(events.some(({ event }) => event === 'output')).toBe(true)
})
