/** T36 D53: agents that clients of others buy over HTTP: x402 in both versions, with money on a real chain. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from '@x402/core/http'
import { extractDiscoveryInfoFromExtension, validateDiscoveryExtensionSpec } from '@x402/extensions/bazaar'
import {
  decodeSignedOffers,
  extractOffersFromPaymentRequired,
  findAcceptsObjectFromSignedOffer,
  verifyOfferSignatureEIP712,
  verifyReceiptMatchesOffer,
  verifyReceiptSignatureEIP712,
} from '@x402/extensions/offer-receipt'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { receiptSigner } from '../../src/payments/receipt.ts'
import { secp256k1 } from '../../src/payments/secp256k1.ts'
import type { Doors } from '../../src/schema/doors.ts'
import type { Stats } from '../../src/schema/ledger.ts'
import { SignedReceipt } from '../../src/schema/receipt.ts'
import { ask } from '../support/api-calls.ts'
import { type FaultyFacilitator, startFaultyFacilitator } from '../support/faulty-facilitator.ts'
import { axiosBuyer, fetchBuyer, oldFetchBuyer } from '../support/http-buyers.ts'
import { send, sendTask, signFor, termsAt } from '../support/public-seller.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const PRICE = 20_000n
const OTHER = `0x${'12'.repeat(20)}`
let devnet: Devnet
let facilitator: FaultyFacilitator
let seller: TestNode
let home: string
let url: string
/** The tasks that the agent has run, in order. */
const runs: string[] = []

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-public-'))
  devnet = await startDevnet()
  facilitator = await startFaultyFacilitator(devnet.facilitatorUrl)
  seller = await startSeller()
  url = await sell('echo')
})
beforeEach(() => {
  runs.length = 0
})
afterAll(async () => {
  await seller?.stop()
  await facilitator?.stop()
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

function startSeller() {
  return startTestNode({
    devnet: { ...devnet, facilitatorUrl: facilitator.url },
    walletKey: devnet.wallets.seller.privateKey,
    dataDir: join(home, 'seller'),
    public: { port: 0 },
  })
}

async function sell(name: string, { price = PRICE, run = (task: string): string | Promise<string> => task } = {}) {
  const definition = { name, description: `Says it again: ${name}`, price, tags: ['text'] }
  const counted = (task: string) => {
    runs.push(task)
    return run(task)
  }
  const { id } = await seller.node.registerAgent(definition, { persist: false, run: counted })
  return `${seller.publicUrl}/x402/${id}`
}

const key = () => devnet.wallets.buyer.privateKey
const sign = async (at = url, change?: Parameters<typeof signFor>[2]) => signFor(await termsAt(at), key(), change)
const money = () =>
  Promise.all([devnet.wallets.buyer, devnet.wallets.seller].map(({ address }) => devnet.chain.balanceOf(address)))
const runsOf = (task: string) => runs.filter((run) => run === task).length
const errorIn = ({ status, json }: { status: number; json: unknown }) => {
  const { code, settlement } = (json as { error: { code: string; settlement?: string } }).error
  return [status, code, settlement]
}

test.each([
  ['@x402/fetch', async () => fetchBuyer(key())],
  ['x402-fetch, of v1', () => oldFetchBuyer(key())],
  ['@x402/axios', async () => axiosBuyer(key())],
])('%s buys an agent, with a task as JSON or as text', async (_, buyer) => {
  const pay = await buyer()
  const before = await money()
  const json = await pay(url, { task: 'hello' })
  expect([json.status, JSON.parse(json.body)]).toEqual([200, { result: 'hello' }])
  const transaction = expect.stringMatching(/^0x[0-9a-f]{64}$/)
  expect(json.settled).toMatchObject({ success: true, transaction, payer: devnet.wallets.buyer.address })
  const text = await pay(url, 'as text')
  expect([text.status, text.body]).toEqual([200, 'as text'])
  const after = await money()
  expect([before[0]! - after[0]!, after[1]! - before[1]!]).toEqual([2n * PRICE, 2n * PRICE])
})

test('the signature of a payment is checked once, which is the dearest step of a sale', async () => {
  const { recover } = secp256k1
  let recovered = 0
  Object.assign(secp256k1, {
    recover(...args: Parameters<typeof recover>) {
      recovered++
      return recover.apply(secp256k1, args)
    },
  })
  onTestFinished(() => void Object.assign(secp256k1, { recover }))
  const payment = await sign()
  recovered = 0
  expect((await sendTask(url, 'checked once', payment)).status).toBe(200)
  expect(recovered).toBe(1)
})

test('a task of almost a megabyte is sent unpaid and paid, as clients do, and comes back whole', async () => {
  const task = 'a task with ümlauts, “quotes” and \n lines. '.repeat(20_000)
  const { status, body } = await fetchBuyer(key())(url, { task })
  expect([status, JSON.parse(body).result === task]).toEqual([200, true])
})

describe('what an unpaid request is answered', () => {
  test('one 402 serves v2 by its header and v1 by its body, and is small', async () => {
    const { status, json, headers } = await sendTask(url, 'hello')
    expect(status).toBe(402)
    const header = headers.get('payment-required')!
    expect(header.length).toBeLessThan(4_096)
    const { payTo, asset } = (json as { accepts: { payTo: string; asset: string }[] }).accepts[0]!
    expect(decodePaymentRequiredHeader(header)).toMatchObject({
      x402Version: 2,
      error: 'Payment required',
      resource: { url, description: 'Says it again: echo', mimeType: 'application/json', serviceName: 'echo' },
      accepts: [
        {
          ...{ scheme: 'exact', network: 'eip155:84532', amount: '20000', payTo: devnet.wallets.seller.address },
          extra: { name: 'USDC', version: '2' },
        },
        // The node's own account could settle channels here.
        { scheme: 'batch-settlement', amount: '20000', extra: { minDeposit: '100000', withdrawDelay: 86_400 } },
      ],
    })
    expect(json).toMatchObject({
      x402Version: 1,
      accepts: [{ scheme: 'exact', network: 'base-sepolia', maxAmountRequired: '20000', resource: url }],
    })
    expect([payTo, asset.length]).toEqual([devnet.wallets.seller.address, 42])
    expect(headers.get('cache-control')).toBe('no-store')
  })

  test('the header stays small however long a name, a description and tags are', async () => {
    const long = '“長い説明”\n'.repeat(300)
    const tags = Array.from({ length: 16 }, (_, at) => `tag-${at}-${'x'.repeat(24)}`)
    const definition = { name: '長'.repeat(80), description: long, price: 1_000_000n, tags, model: 'builtin/echo' }
    const { id } = await seller.node.registerAgent(definition, { persist: false })
    const { headers } = await send(`${seller.publicUrl}/x402/${id}`)
    expect(headers.get('payment-required')!.length).toBeLessThan(4_096)
    const { accepts } = decodePaymentRequiredHeader(headers.get('payment-required')!)
    expect(accepts[0]!.amount).toBe('1000000')
  })

  test('the offer is signed by the account that is paid, and the Bazaar declaration is valid', async () => {
    const terms = await termsAt(url)
    const [offer] = decodeSignedOffers(extractOffersFromPaymentRequired(terms))
    expect(offer).toMatchObject({ resourceUrl: url, amount: '20000', scheme: 'exact', acceptIndex: 0 })
    expect(findAcceptsObjectFromSignedOffer(offer!, terms.accepts)).toEqual(terms.accepts[0])
    const { signer } = await verifyOfferSignatureEIP712(offer!.signedOffer as never)
    expect(signer).toBe(devnet.wallets.seller.address)
    const bazaar = terms.extensions?.bazaar as never
    expect(validateDiscoveryExtensionSpec(bazaar)).toMatchObject({ valid: true })
    expect(extractDiscoveryInfoFromExtension(bazaar)).toMatchObject({ input: { method: 'POST', bodyType: 'json' } })
  })

  test('an empty body asks for the price, and what cannot be a task is refused before a payment is asked for', async () => {
    expect((await send(url)).status).toBe(402)
    expect(errorIn(await send(`${seller.publicUrl}/x402/${'a'.repeat(32)}`))).toEqual([404, 'NOT_FOUND', undefined])
    expect(errorIn(await send(`${seller.publicUrl}/x402/..%2fadmin`))).toEqual([404, 'NOT_FOUND', undefined])
    const headers = { 'content-type': 'application/json', 'content-length': '99000000' }
    const { request } = await import('node:http')
    const status = await new Promise((resolve, reject) => {
      const asking = request(url, { method: 'POST', headers }, (answer) => resolve(answer.resume().statusCode))
      asking.on('error', reject).flushHeaders()
    })
    expect(status).toBe(413)
  })
})

describe('receipts', () => {
  test('the receipt verifies with @x402/extensions and fits the offer; ours is beside it', async () => {
    const terms = await termsAt(url)
    const answer = await sendTask(url, 'a receipt', await signFor(terms, key()))
    const settled = decodePaymentResponseHeader(answer.headers.get('payment-response')!)
    const said = settled.extensions as Record<string, { info: { receipt: unknown } }>
    const canonical = said['offer-receipt']!.info.receipt as never
    const { signer, payload } = await verifyReceiptSignatureEIP712(canonical)
    expect(signer).toBe(devnet.wallets.seller.address)
    expect(payload).toMatchObject({ resourceUrl: url, transaction: settled.transaction })
    const [offer] = decodeSignedOffers(extractOffersFromPaymentRequired(terms))
    expect(verifyReceiptMatchesOffer(canonical, offer!, [devnet.wallets.buyer.address])).toBe(true)
    const own = SignedReceipt.parse(said['stoa-receipt']!.info.receipt)
    expect(receiptSigner(own)).toBe(devnet.wallets.seller.address)
  })
})

describe('the same request again', () => {
  test('gets the stored answer with the same receipt, and another body or another route with its payment gets 409', async () => {
    const other = await sell('other')
    const headers = await sign()
    const first = await sendTask(url, 'once', headers)
    expect(first.json).toEqual({ result: 'once' })
    const before = await money()
    const again = await sendTask(url, 'once', headers)
    expect([again.status, again.text]).toEqual([200, first.text])
    const settledIn = ({ headers }: typeof first) => decodePaymentResponseHeader(headers.get('payment-response')!)
    expect(settledIn(again)).toEqual(settledIn(first))
    expect(errorIn(await sendTask(url, 'twice', headers))).toEqual([409, 'PAYMENT_USED', undefined])
    const asText = await send(url, { headers: { ...headers, 'content-type': 'text/plain' }, body: '{"task":"once"}' })
    expect(errorIn(asText)).toEqual([409, 'PAYMENT_USED', undefined])
    expect(errorIn(await sendTask(other, 'once', headers))).toEqual([409, 'PAYMENT_USED', undefined])
    expect([runsOf('once'), runsOf('twice')]).toEqual([1, 0])
    expect(await money()).toEqual(before)
  })

  test('sent ten times at once runs the agent once, and all get its answer', async () => {
    const headers = await sign()
    const before = await money()
    const answers = await Promise.all(Array.from({ length: 10 }, () => sendTask(url, 'ten times', headers)))
    expect(answers.map(({ json }) => json)).toEqual(answers.map(() => ({ result: 'ten times' })))
    expect(runsOf('ten times')).toBe(1)
    expect((await money())[1]! - before[1]!).toBe(PRICE)
  })

  test('gets its answer when the first one was lost with the connection, also after a restart', async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<string>()
    const slow = await sell('slow', { run: () => gate })
    const headers = await sign(slow)
    const leaving = new AbortController()
    const request = { headers: { ...headers, 'content-type': 'text/plain' }, body: 'lost' }
    const left = send(slow, { ...request, signal: leaving.signal }).catch((error: Error) => error.name)
    await until(() => runsOf('lost') === 1)
    leaving.abort()
    expect(await left).toBe('AbortError')
    const before = await money()
    open('found again')
    expect(await send(slow, request)).toMatchObject({ status: 200, text: 'found again' })
    await seller.stop()
    seller = await startSeller()
    url = await sell('echo')
    const again = await send(slow.replace(/^.*\/x402/, `${seller.publicUrl}/x402`), request)
    // Its agent is a function of this test: it is gone with the restart. What is paid for is given all the same.
    expect(again).toMatchObject({ status: 200, text: 'found again' })
    expect((await send(slow.replace(/^.*\/x402/, `${seller.publicUrl}/x402`))).status).toBe(404)
    expect(runsOf('lost')).toBe(1)
    expect((await money())[1]! - before[1]!).toBe(PRICE)
  })
})

describe('payments that buy nothing', () => {
  test.each<[string, Parameters<typeof signFor>[2], number]>([
    ['another amount', (sent) => altered(sent, { value: '19999' }), 402],
    ['another payee', (sent) => altered(sent, { to: OTHER }), 402],
    [
      'a forged signature',
      (sent) => ({ ...sent, payload: { ...sent.payload, signature: `0x${'11'.repeat(65)}` } }),
      402,
    ],
    ['another scheme', (sent) => ({ ...sent, accepted: { ...sent.accepted, scheme: 'upto' } }), 402],
    ['another network', (sent) => ({ ...sent, accepted: { ...sent.accepted, network: 'eip155:8453' } }), 402],
    ['another resource', (sent) => ({ ...sent, resource: { ...sent.resource!, url: `${url}x` } }), 402],
    // The signature is right in these: it pays the full price.
    ['a lower accepted amount', (sent) => ({ ...sent, accepted: { ...sent.accepted, amount: '1' } }), 402],
    ['another accepted payee', (sent) => ({ ...sent, accepted: { ...sent.accepted, payTo: OTHER } }), 402],
    ['another accepted asset', (sent) => ({ ...sent, accepted: { ...sent.accepted, asset: OTHER } }), 402],
    ['another accepted window', (sent) => ({ ...sent, accepted: { ...sent.accepted, maxTimeoutSeconds: 9 } }), 402],
    ['no version', (sent) => ({ ...sent, x402Version: 3 }), 400],
    ['no authorization', (sent) => ({ ...sent, payload: {} }), 400],
  ])('%s', async (_, change, status) => {
    const before = await money()
    const answer = await sendTask(url, 'bought with nothing', await sign(url, change))
    expect(answer.status, answer.text).toBe(status)
    if (status === 402) {
      expect(answer.headers.get('payment-response')).toBeNull()
      const { error } = decodePaymentRequiredHeader(answer.headers.get('payment-required')!)
      expect(error).not.toBe('Payment required')
      expect((answer.json as { x402Version: number }).x402Version).toBe(1)
    } else expect(errorIn(answer)).toEqual([400, 'PAYMENT_UNREADABLE', 'none'])
    expect(runsOf('bought with nothing')).toBe(0)
    expect(await money()).toEqual(before)
  })

  test.each([
    ['not base64', '<payment>'],
    ['base64url', Buffer.from('{"x":"??>>"}').toString('base64url').replace(/^/, '_-')],
    ['not JSON', Buffer.from('pay').toString('base64')],
    ['not UTF-8', Buffer.from([0xff, 0xfe]).toString('base64')],
    ['null', Buffer.from('null').toString('base64')],
    ['deep', Buffer.from('['.repeat(8_000)).toString('base64')],
    ['long', 'A'.repeat(13_000)],
  ])('a header that is %s is told to be unreadable', async (_, header) => {
    const headers = { 'payment-signature': header }
    expect(errorIn(await sendTask(url, 'x', headers))).toEqual([400, 'PAYMENT_UNREADABLE', 'none'])
    expect(errorIn(await sendTask(url, 'x', { 'x-payment': header }))).toEqual([400, 'PAYMENT_UNREADABLE', 'none'])
  })

  test('a payment for other terms than are asked buys nothing, as at the server of x402, and its result is given whatever it says later', async () => {
    const terms = await termsAt(url)
    const payment = await signFor(terms, key())
    const sent = JSON.parse(Buffer.from(payment['payment-signature'], 'base64').toString())
    const accepting = (changes: object) => {
      const text = JSON.stringify({ ...sent, accepted: { ...sent.accepted, ...changes } })
      return { 'payment-signature': Buffer.from(text).toString('base64') }
    }
    const refused = await sendTask(url, 'accepted', accepting({ amount: '1' }))
    const { error } = decodePaymentRequiredHeader(refused.headers.get('payment-required')!)
    expect([refused.status, error]).toEqual([402, expect.stringMatching(/^No matching payment requirements/)])
    const stream = await sendTask(`${url}/stream`, 'accepted', accepting({ extra: sent.accepted.extra }))
    expect(stream.status).toBe(402)
    expect(runsOf('accepted')).toBe(0)
    // Nothing was used up. The letters of an address do not matter.
    const bought = await sendTask(url, 'accepted', accepting({ payTo: terms.accepts[0]!.payTo.toLowerCase() }))
    expect(bought.json).toEqual({ result: 'accepted' })
    // What was sold is given again: the seller may have changed its terms since.
    expect((await sendTask(url, 'accepted', accepting({ amount: '1' }))).json).toEqual({ result: 'accepted' })
    expect(runsOf('accepted')).toBe(1)
  })

  test('a payment with a bad body is not used up', async () => {
    const headers = await sign()
    const json = { ...headers, 'content-type': 'application/json' }
    for (const body of ['', '{', '{}', '{"task":7}', '{"task":""}', '[]', 'null', '{"task":"\\ud800"}']) {
      expect(errorIn(await send(url, { headers: json, body }))).toEqual([400, 'INVALID_REQUEST', undefined])
    }
    const form = { ...headers, 'content-type': 'application/x-www-form-urlencoded' }
    expect((await send(url, { headers: form, body: 'task=x' })).status).toBe(415)
    expect((await sendTask(url, 'at last', headers)).json).toEqual({ result: 'at last' })
  })

  test('an agent that fails is not paid for, and its payment buys nothing more', async () => {
    const broken = await sell('broken', { run: () => Promise.reject(new Error('secret of the seller')) })
    const headers = await sign(broken)
    const before = await money()
    const answer = await sendTask(broken, 'fail', headers)
    expect(errorIn(answer)).toEqual([502, 'AGENT_FAILED', 'none'])
    expect(answer.text).not.toContain('secret')
    expect(errorIn(await sendTask(broken, 'fail', headers))).toEqual([502, 'AGENT_FAILED', 'none'])
    expect(runsOf('fail')).toBe(1)
    expect(await money()).toEqual(before)
  })
})

describe('settlements that go wrong', () => {
  test('a settlement that is refused keeps the result back and says so with 402', async () => {
    // An account of its own: one that was refused pays first after that, also when the test is tried again.
    const poor = generatePrivateKey()
    const payer = privateKeyToAccount(poor).address
    await devnet.fund(payer, PRICE)
    facilitator.faults.push({ kind: 'refuse', reason: 'insufficient_funds' })
    const before = await money()
    const answer = await sendTask(url, 'kept back', await signFor(await termsAt(url), poor))
    expect(answer.status, answer.text).toBe(402)
    expect(decodePaymentResponseHeader(answer.headers.get('payment-response')!)).toMatchObject({
      ...{ success: false, transaction: '', payer },
      errorReason: expect.stringContaining('insufficient_funds'),
    })
    expect(answer.text).not.toContain('kept back')
    expect([await money(), await devnet.chain.balanceOf(payer)]).toEqual([before, PRICE])
  })

  test('a settlement that nobody knows of is told as unknown, never as unpaid; the same request gets the result later', async () => {
    facilitator.faults.push({ kind: 'drop', settles: true })
    const headers = await sign()
    const before = await money()
    const answer = await sendTask(url, 'unknown for now', headers)
    expect(errorIn(answer)).toEqual([504, 'SETTLEMENT_UNKNOWN', 'unknown'])
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(answer.headers.get('payment-required')).toBeNull()
    const isGiven = async () => (await sendTask(url, 'unknown for now', headers)).status === 200
    await until(isGiven, { timeoutMs: 60_000, everyMs: 250 })
    expect(runsOf('unknown for now')).toBe(1)
    expect((await money())[1]! - before[1]!).toBe(PRICE)
  })
})

test('T6 an account gets no more than it can pay for: nothing if it is empty, one call if it pays for six at once', async () => {
  const [empty, scarce] = [generatePrivateKey(), generatePrivateKey()]
  await devnet.fund(privateKeyToAccount(scarce).address, PRICE)
  const [terms, before] = [await termsAt(url), await money()]
  const refused = await sendTask(url, 'of an empty account', await signFor(terms, empty))
  expect([refused.status, runsOf('of an empty account')]).toEqual([402, 0])
  const signed = await Promise.all([1, 2, 3, 4, 5, 6].map(() => signFor(terms, scarce)))
  const answers = await Promise.all(signed.map((payment) => sendTask(url, 'paid from one balance', payment)))
  const given = answers.filter(({ text }) => text.includes('paid from one balance'))
  expect(given.map(({ status }) => status)).toEqual([200])
  const others = answers.filter((answer) => answer !== given[0]).map(({ status }) => status)
  // Refused, or not settled yet: the account may still get money.
  expect(others.filter((status) => status !== 402 && status !== 504)).toEqual([])
  expect((await money())[1]! - before[1]!).toBe(PRICE)
})

test('a free agent runs unpaid, and each call is a caller of its own', async () => {
  const free = await sell('free', { price: 0n })
  expect((await sendTask(free, 'gratis')).json).toEqual({ result: 'gratis' })
  expect(errorIn(await send(free))).toEqual([415, 'UNSUPPORTED_MEDIA_TYPE', undefined])
  expect((await sendTask(free, 'again')).json).toEqual({ result: 'again' })
})

test('the seller’s ledger names the door of a payment', async () => {
  await sendTask(url, 'for the books', await sign())
  const [payment] = await ask<{ door: string; peer_id: string }[]>(seller.url, '/payments?limit=1')
  expect(payment).toMatchObject({ door: 'http', peer_id: `http:${devnet.wallets.buyer.address.toLowerCase()}` })
})

test('the operator sees which doors are open, where each agent is bought, and what was earned there', async () => {
  const { doors } = await ask<Doors>(seller.url, '/doors')
  expect(doors.map(({ door, open }) => [door, open])).toEqual(
    ['libp2p', 'a2a', 'http', 'mcp'].map((door) => [door, true]),
  )
  const http = doors.find(({ door }) => door === 'http')!
  expect(http).toMatchObject({ url: `${seller.publicUrl}/x402`, agents: expect.arrayContaining([]) })
  expect(http.agents).toContainEqual(expect.objectContaining({ agent_name: 'echo', url, stream_url: `${url}/stream` }))
  const { agents: sold } = await ask<Stats>(seller.url, '/stats')
  const calls = sold.reduce((sum, { earned_atomic }) => sum + BigInt(earned_atomic), 0n)
  expect(BigInt(http.earned_atomic)).toBe(calls)
  expect(BigInt(http.calls) * PRICE).toBeGreaterThanOrEqual(calls)
})

describe('people and pages', () => {
  test('a browser gets a static page that nothing can frame or script', async () => {
    const { status, text, headers } = await send(url, { method: 'GET', headers: { accept: 'text/html,*/*' } })
    expect([status, headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
    expect(headers.get('content-security-policy')).toMatch(/default-src 'none'.*frame-ancestors 'none'/)
    expect(text).not.toMatch(/<script|Says it again|echo/)
  })

  test('a program that reads gets what the agent is and how to call it', async () => {
    expect((await send(url, { method: 'GET' })).json).toMatchObject({
      name: 'echo',
      price_atomic: '20000',
      how: { url },
    })
    const { json } = await send(`${seller.publicUrl}/x402`, { method: 'GET' })
    expect((json as { agents: object[] }).agents).toContainEqual(expect.objectContaining({ name: 'echo', url }))
  })

  test('pages of any origin may ask and pay, without credentials', async () => {
    const asked = 'content-type,payment-signature,access-control-expose-headers'
    const preflight = { origin: 'https://shop.example', 'access-control-request-headers': asked }
    const { status, headers } = await send(url, { method: 'OPTIONS', headers: preflight })
    expect([status, headers.get('access-control-allow-origin')]).toEqual([204, '*'])
    expect(headers.get('access-control-allow-headers')?.toLowerCase()).toContain('access-control-expose-headers')
    const answer = await sendTask(url, 'x', { origin: 'https://shop.example' })
    expect(answer.headers.get('access-control-allow-origin')).toBe('*')
    expect(answer.headers.get('access-control-expose-headers')).toContain('PAYMENT-REQUIRED')
    expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
  })
})

type Payload = Parameters<NonNullable<Parameters<typeof signFor>[2]>>[0]

/** A payment whose authorization says something else than was signed. */
function altered(sent: Payload, change: object): Payload {
  const { authorization } = sent.payload as { authorization: object }
  return { ...sent, payload: { ...sent.payload, authorization: { ...authorization, ...change } } }
}
