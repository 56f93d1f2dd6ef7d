/** T41 D54: what a seller over HTTP may write where nothing, an object or another spelling is meant. */
import { afterEach, expect, test } from 'vitest'
import { buyUrl } from '../../src/buying/web/buy-url.ts'
import { payTo } from '../support/payments.ts'
import { TestBuyer } from '../support/test-buyer.ts'
import { askedBy, headerOf, readHeader, startBareSeller, type WebSeller } from '../support/web-seller.ts'

const NEVER = new AbortController().signal
const open: WebSeller[] = []
afterEach(() => Promise.all(open.splice(0).map((seller) => seller.stop())))

/** Asks what `terms` says, and gives a result for any payment. */
async function sellerOf(terms: (origin: string) => unknown) {
  let origin = ''
  const seller = await startBareSeller(({ headers }, response) => {
    if (headers['payment-signature'] === undefined) {
      return void response.writeHead(402, { 'payment-required': headerOf(terms(origin)) }).end()
    }
    const settled = { success: true, transaction: `0x${'ab'.repeat(32)}`, network: 'eip155:84532', payer: payTo }
    response.writeHead(200, { 'payment-response': headerOf(settled) }).end('the result')
  })
  origin = seller.origin
  open.push(seller)
  return seller
}

function buyerOf(privateOrigins: readonly string[] = []) {
  return new TestBuyer({ open: () => Promise.reject(new Error('no peer is dialed')), privateOrigins })
}

test.each<[string, Record<string, unknown>]>([
  ['no extensions, as null', { extensions: null }],
  ['no resource, as null', { resource: null }],
  ['an extension that is null', { extensions: { 'payment-identifier': null, bazaar: null } }],
  ['an extension that is a number', { extensions: { 'payment-identifier': 5, bazaar: 5, 'offer-receipt': 'x' } }],
  ['a payment identifier without a word', { extensions: { 'payment-identifier': { info: null } } }],
])('%s: the payment that is signed leaves, and buys the result', async (_, changes) => {
  const seller = await sellerOf((origin) => askedBy(origin, payTo, changes))
  const buyer = buyerOf([seller.origin])
  const { output } = await buyUrl({ url: seller.url, task: 'a task', signal: NEVER }, buyer.deps)
  const payments = seller.seen.flatMap(({ headers }) => headers['payment-signature'] ?? [])
  expect([output, payments.length]).toEqual(['the result', 1])
  expect(readHeader(payments[0])).toMatchObject({ x402Version: 2, payload: { authorization: { to: payTo } } })
})

test.each([
  ['a method that is no word', { type: 'http', method: { toString: 1, valueOf: 1 } }],
  ['a form that is no word', { type: 'http', method: 'POST', bodyType: { toString: 1, valueOf: 1 } }],
])('%s is told as what it is, and nothing is signed', async (_, input) => {
  const seller = await sellerOf((origin) => askedBy(origin, payTo, { extensions: { bazaar: { info: { input } } } }))
  const bought = buyUrl({ url: seller.url, task: 'a task', signal: NEVER }, buyerOf([seller.origin]).deps)
  await bought.catch((error: { code: string }) => expect(error.code).toBe('TERMS_REFUSED'))
})

test('a dot at the end of a host, and dots of other scripts, make no other seller for limits and measures', () => {
  const { web } = buyerOf(['http://127.0.0.1:4021']).deps
  const spelled = ['https://seller.example/run', 'https://seller.example./run', 'https://SELLER。example。/run']
  const urls = spelled.map((url) => web.url(url))
  expect(new Set(urls.map(({ host, origin, agentId, href }) => [host, origin, agentId, href].join(' ')))).toEqual(
    new Set(['seller.example https://seller.example https://seller.example/run https://seller.example/run']),
  )
})
