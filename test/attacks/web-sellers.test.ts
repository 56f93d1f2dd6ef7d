/** T41 D54: what a hostile seller over HTTP does to a buyer that has only its URL. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { buyUrl, type UrlPurchase } from '../../src/buying/web/buy-url.ts'
import { sellerUrl } from '../../src/buying/web/seller-url.ts'
import type { PaymentChain } from '../../src/payments/chain-verdict.ts'
import { createOrderStore } from '../../src/store/orders.ts'
import { FakeSettlement } from '../support/fake-settlement.ts'
import { payTo } from '../support/payments.ts'
import { testBudget } from '../support/test-budget.ts'
import { TestBuyer } from '../support/test-buyer.ts'
import {
  askedBy,
  headerOf,
  readHeader,
  startBareSeller,
  type WebRequestSeen,
  type WebSeller,
} from '../support/web-seller.ts'

const OTHER = `0x${'2'.repeat(40)}`
const TX = `0x${'ab'.repeat(32)}`
const NEVER = new AbortController().signal
type Answer = Parameters<typeof startBareSeller>[0]
type Bare = Awaited<ReturnType<typeof startBareSeller>>

let open: WebSeller[] = []
beforeEach(() => {
  open = []
})
afterEach(() => Promise.all(open.map((seller) => seller.stop())))

async function start(answer: Answer): Promise<Bare> {
  const seller = await startBareSeller(answer)
  open.push(seller)
  return seller
}

/** Asks `terms` unpaid, and answers a payment with `paid`. */
async function sellerOf(terms: (origin: string) => object, paid: Answer = results()): Promise<Bare> {
  let origin = ''
  const seller = await start((request, response) => {
    if (paymentIn(request) !== undefined) return paid(request, response)
    response.writeHead(402, { 'payment-required': headerOf(terms(origin)) }).end('{}')
  })
  origin = seller.origin
  return seller
}

const asks =
  (changes: Record<string, unknown> = {}) =>
  (origin: string) =>
    askedBy(origin, payTo, changes)
const results =
  (text = 'the result'): Answer =>
  (_, response) => {
    const settled = headerOf({ success: true, transaction: TX, network: 'eip155:84532', payer: payTo })
    response.writeHead(200, { 'payment-response': settled, 'content-type': 'text/plain' }).end(text)
  }
const fails =
  (status: number, headers: Record<string, string> = {}): Answer =>
  (_, response) => {
    response.writeHead(status, headers).end('{}')
  }
const paymentIn = ({ headers }: WebRequestSeen) => headers['payment-signature'] ?? headers['x-payment']
const paymentsAt = ({ seen }: Bare) => seen.map(paymentIn).filter((header) => header !== undefined)

function buyerFor(sellers: readonly WebSeller[], options: { chain?: PaymentChain } = {}) {
  const refuse = () => Promise.reject(new Error('no peer is dialed'))
  return new TestBuyer({ ...options, open: refuse, privateOrigins: sellers.map(({ origin }) => origin) })
}
const buy = (buyer: TestBuyer, url: string, more: Partial<UrlPurchase> = {}) =>
  buyUrl({ url, task: 'a task', signal: NEVER, ...more }, buyer.deps)
const signedBy = (buyer: TestBuyer) =>
  buyer.purchases.open('reserved', { network: 'eip155:84532', limit: 10 }).then((found) => found.length)

describe('before the signature', () => {
  test.each<[string, Record<string, unknown>, string]>([
    ['another network', { network: 'eip155:8453' }, 'NETWORK_MISMATCH'],
    ['another asset', { asset: OTHER }, 'TERMS_REFUSED'],
    ['USDC by another name', { extra: { name: 'USD Coin', version: '2' } }, 'TERMS_REFUSED'],
    ['USDC of another version', { extra: { name: 'USDC', version: '1' } }, 'TERMS_REFUSED'],
    [
      'a transfer by Permit2',
      { extra: { name: 'USDC', version: '2', assetTransferMethod: 'permit2' } },
      'TERMS_REFUSED',
    ],
    ['another flow of payment', { extra: { name: 'USDC', version: '2', paymentFlow: 'escrow' } }, 'TERMS_REFUSED'],
    ['another scheme', { scheme: 'upto' }, 'TERMS_REFUSED'],
    ['nothing', { amount: '0' }, 'TERMS_REFUSED'],
    ['less than nothing', { amount: '-10000' }, 'TERMS_REFUSED'],
    ['an amount in other words', { amount: '1e4' }, 'TERMS_REFUSED'],
    ['an amount as a number', { amount: 10_000 }, 'TERMS_REFUSED'],
    ['more than the node allows', { amount: '100001' }, 'OVER_PRICE'],
    ['an amount beyond all numbers', { amount: `1${'0'.repeat(77)}` }, 'OVER_PRICE'],
    ['a payment to nobody', { payTo: `0x${'0'.repeat(40)}` }, 'TERMS_REFUSED'],
    ['a payment to a name', { payTo: 'seller.eth' }, 'TERMS_REFUSED'],
    ['a window of ten years', { maxTimeoutSeconds: 315_360_000 }, 'TERMS_REFUSED'],
    ['no window', { maxTimeoutSeconds: 0 }, 'TERMS_REFUSED'],
    ['a window of half a second', { maxTimeoutSeconds: 0.5 }, 'TERMS_REFUSED'],
    ['the resource of another host', { resource: { url: 'https://other.example/run' } }, 'TERMS_REFUSED'],
    ['an unknown version', { x402Version: 3 }, 'TERMS_REFUSED'],
    ['terms that fit no header', { extensions: { long: 'x'.repeat(11_000) } }, 'TERMS_REFUSED'],
  ])('a seller that asks for %s gets no signature', async (_, changes, code) => {
    const seller = await sellerOf(asks(changes))
    const buyer = buyerFor([seller])
    await expect(buy(buyer, seller.url)).rejects.toMatchObject({ code })
    expect([paymentsAt(seller), await signedBy(buyer)]).toEqual([[], 0])
  })

  test.each(['localhost', 'localhost.', 'localhost..', 'LOCALHOST\u3002\u3002.'])(
    'T41: a seller that is denied is denied under the spelling %s too',
    async (spelling) => {
      const named = (origin: string) => origin.replace('127.0.0.1', 'localhost')
      const seller = await sellerOf((origin) => askedBy(named(origin), payTo))
      const { port } = new URL(seller.origin)
      const buyer = buyerFor([{ ...seller, origin: named(seller.origin) }])
      const { clock, purchases } = buyer
      Object.assign(buyer.deps.budget, testBudget({ deny: ['localhost'] }, { clock, purchases }))
      await expect(buy(buyer, `http://${spelling}:${port}/run`)).rejects.toMatchObject({ code: 'SELLER_NOT_ALLOWED' })
      expect([paymentsAt(seller), await signedBy(buyer)]).toEqual([[], 0])
    },
  )

  test.each(['a.example.', 'a.example..', 'A.example。。'])('T41: %s is the seller a.example', (spelling) => {
    const { origin, host, agentId } = sellerUrl(`https://${spelling}/run`, [])
    expect([origin, host, agentId]).toEqual(['https://a.example', 'a.example', 'https://a.example/run'])
  })

  test('of ten thousand offers only the first are read', async () => {
    const v1 = { x402Version: 1, accepts: [...Array(10_000).fill({ scheme: 'x' }), askedBy('', payTo).accepts[0]] }
    const seller = await start((_, response) => void response.writeHead(402).end(JSON.stringify(v1)))
    await expect(buy(buyerFor([seller]), seller.url)).rejects.toMatchObject({ code: 'TERMS_REFUSED' })
    expect(paymentsAt(seller)).toEqual([])
  })

  test.each([
    ['base64url', (text: string) => Buffer.from(text).toString('base64url')],
    ['no base64', () => '{"x402Version":2}'],
    ['JSON that is nested too deep', () => Buffer.from('['.repeat(3_000)).toString('base64')],
    ['__proto__', () => Buffer.from('{"__proto__":{"x402Version":2}}').toString('base64')],
  ])('terms as %s are no terms', async (_, write) => {
    const seller = await start((_request, response) => {
      const header = write(JSON.stringify(askedBy('', payTo, { resource: { url: 'ü>?ü>?' } })))
      response.writeHead(402, { 'payment-required': header }).end('{}')
    })
    await expect(buy(buyerFor([seller]), seller.url)).rejects.toMatchObject({ code: 'TERMS_REFUSED' })
  })

  test.each([
    [
      'headers of 17 KiB',
      (response: Parameters<Answer>[1]) => void response.writeHead(402, { long: 'x'.repeat(17_000) }).end(),
    ],
    [
      'half an answer',
      (response: Parameters<Answer>[1]) => void response.socket!.end('HTTP/1.1 402 Payment Required\r\ncontent-le'),
    ],
    ['no HTTP', (response: Parameters<Answer>[1]) => void response.socket!.end('hello\r\n\r\n')],
  ])('%s: nothing is signed', async (_, answer) => {
    const seller = await start((_request, response) => answer(response))
    const buyer = buyerFor([seller])
    await expect(buy(buyer, seller.url)).rejects.toMatchObject({ code: 'SELLER_UNREACHABLE' })
    expect(await signedBy(buyer)).toBe(0)
  })

  test('an answer that never ends is cut, and costs nothing', async () => {
    const seller = await start((_, response) => {
      response.writeHead(200)
      const more = () => {
        while (response.writable && response.write('x'.repeat(64 * 1024)));
      }
      response.on('drain', more)
      more()
    })
    const { output, notes, payment } = await buy(buyerFor([seller]), seller.url)
    expect([output.length, payment]).toEqual([4 * 1024 * 1024, null])
    expect(notes).toEqual(['the result is longer than 4194304 bytes and is cut there'])
  })

  test('a caller that leaves a silent seller leaves no order', async () => {
    const leaving = new AbortController()
    const seller = await start(() => leaving.abort(new Error('left')))
    const buyer = buyerFor([seller])
    await expect(buy(buyer, seller.url, { signal: leaving.signal })).rejects.toThrow('left')
    expect(await signedBy(buyer)).toBe(0)
  })

  test('a redirect is not followed: its target sees nothing', async () => {
    const target = await sellerOf(asks())
    const seller = await start((_, response) => void response.writeHead(307, { location: target.url }).end())
    const buyer = buyerFor([seller, target])
    await expect(buy(buyer, seller.url)).rejects.toThrow(`leads to ${JSON.stringify(target.url)}`)
    expect(target.seen).toEqual([])
  })

  test('an account that was paid before is the only one that is paid again, unless the caller says so', async () => {
    let account: string = payTo
    const seller = await sellerOf((origin) => askedBy(origin, account))
    const buyer = buyerFor([seller])
    await buy(buyer, seller.url)
    account = OTHER
    await expect(buy(buyer, seller.url)).rejects.toThrow(`was paid at ${payTo} before: nothing was signed`)
    expect(paymentsAt(seller)).toHaveLength(1)
    await buy(buyer, seller.url, { expected: { payTo: OTHER } })
    expect(paymentsAt(seller)).toHaveLength(2)
  })
})

test('a seller that gives nothing and names another account each time is one seller to the budget for one seller', async () => {
  let asked = 0
  const seller = await sellerOf((origin) => askedBy(origin, `0x${`${++asked}`.padStart(40, '0')}`), fails(403))
  const buyer = buyerFor([seller])
  const { clock, purchases } = buyer
  Object.assign(buyer.deps.budget, testBudget({ perSeller: 25_000n }, { clock, purchases }))
  const codes: unknown[] = []
  for (const path of ['', '', '?query', '/other/place']) {
    const bought = await buy(buyer, seller.url + path).catch(({ code }) => code)
    codes.push(bought)
  }
  expect(codes).toEqual(['RESULT_PENDING', 'RESULT_PENDING', 'OVER_BUDGET', 'OVER_BUDGET'])
  expect(await buyer.spent()).toBe(20_000n)
})

describe('addresses of own networks', () => {
  test.each([
    'https://127.0.0.1/run',
    'https://2130706433/run',
    'https://0x7f000001/run',
    'https://0177.0.0.1/run',
    'https://127.1/run',
    'https://[::1]/run',
    'https://[::ffff:127.0.0.1]/run',
    'https://[64:ff9b::7f00:1]/run',
    'https://[2002:7f00:1::]/run',
    'https://localhost/run',
    'https://169.254.169.254/latest/meta-data',
    'https://100.64.0.1/run',
    'https://0.0.0.0/run',
    'http://seller.example/run',
    'https://user:secret@seller.example/run',
    'https://seller.example:22/run',
    'file:///etc/passwd',
    'not a url',
  ])('%s is refused', async (url) => {
    const refusal = buy(buyerFor([]), url)
    await expect(refusal).rejects.toMatchObject({
      code: 'URL_REFUSED',
      message: expect.stringContaining('Nothing was sent'),
    })
  })

  test('a name with one private address among public ones is refused', async () => {
    const resolve = async () => [
      { address: '93.184.215.14', family: 4 },
      { address: '10.0.0.1', family: 4 },
    ]
    const buyer = new TestBuyer({ open: () => Promise.reject(new Error('no')), resolve })
    await expect(buy(buyer, 'https://seller.example/run')).rejects.toThrow('is at 10.0.0.1')
  })

  test('a name is resolved once: what it means later leads nowhere', async () => {
    const inner = await start(results('inner'))
    const asked: string[] = []
    let origin = ''
    // Each answer ends its connection, so the payment needs a new one.
    const server = createServer((request, response) => {
      response.setHeader('connection', 'close')
      if (request.headers['payment-signature'] !== undefined) return void results('outer')({} as never, response)
      response.writeHead(402, { 'payment-required': headerOf(askedBy(origin, payTo)) }).end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    origin = `http://seller.test:${port}`
    const resolve = async (name: string) => {
      asked.push(name)
      return [{ address: asked.length === 1 ? '127.0.0.1' : '127.0.0.2', family: 4 }]
    }
    const buyer = new TestBuyer({ open: () => Promise.reject(new Error('no')), resolve, privateOrigins: [origin] })
    const { output } = await buy(buyer, `${origin}/run`)
    expect([output, asked, inner.seen]).toEqual(['outer', ['seller.test'], []])
    server.closeAllConnections()
    await new Promise((closed) => server.close(closed))
  })
})

describe('after the signature', () => {
  test.each<[string, (target: Bare) => Answer]>([
    [
      '402 with a higher price',
      () => (_, response) =>
        void response
          .writeHead(402, { 'payment-required': headerOf(askedBy('', payTo, { amount: '90000' })) })
          .end('{}'),
    ],
    [
      '402 with a settlement that failed',
      () =>
        fails(402, {
          'payment-response': headerOf({
            success: false,
            errorReason: 'insufficient_funds',
            transaction: '',
            network: 'eip155:84532',
          }),
        }),
    ],
    ['403', () => fails(403)],
    ['a redirect to another seller', (target) => fails(307, { location: target.url })],
  ])('%s leaves the order in doubt, with one payment', async (_, paid) => {
    const target = await sellerOf(asks())
    const seller = await sellerOf(asks(), paid(target))
    const buyer = buyerFor([seller, target])
    await expect(buy(buyer, seller.url)).rejects.toMatchObject({
      code: 'RESULT_PENDING',
      message: expect.stringMatching(/^the seller answered \d+.* to the signed payment/),
    })
    expect([paymentsAt(seller).length, target.seen, await signedBy(buyer)]).toEqual([1, [], 1])
  })

  test('a server that fails and a connection that breaks get the same request again, to the byte', async () => {
    let turn = 0
    const seller = await sellerOf(
      asks({ extra: { name: 'USDC', version: '2', more: [1, { a: 'ü' }] } }),
      (request, response) => {
        turn++
        if (turn === 1) return fails(500)(request, response)
        if (turn === 2) return void response.socket!.destroy()
        return results()(request, response)
      },
    )
    const buyer = buyerFor([seller])
    const { output, payment } = await buy(buyer, seller.url)
    expect([output, payment!.amount]).toEqual(['the result', '0.01'])
    const [header, ...others] = paymentsAt(seller)
    expect(others).toEqual([header, header])
    expect(new Set(seller.seen.map(({ body }) => body))).toEqual(new Set(['{"task":"a task"}']))
    expect(readHeader(header!)).toMatchObject({
      x402Version: 2,
      resource: { url: seller.url },
      accepted: askedBy(seller.origin, payTo, { extra: { name: 'USDC', version: '2', more: [1, { a: 'ü' }] } })
        .accepts[0],
    })
  })

  test('a result without a word about the payment is a result, and the books say so', async () => {
    const seller = await sellerOf(asks(), (_, response) => void response.writeHead(200).end(Buffer.from([0xff, 0xfe])))
    const { output_base64, notes, payment } = await buy(buyerFor([seller]), seller.url)
    expect([output_base64, payment!.tx_hash]).toEqual(['//4=', ''])
    expect(notes).toEqual(['the seller did not say what became of the payment'])
  })

  test('after a restart the same payment goes out again, and its result is the order’s', async () => {
    let isBack = false
    const seller = await sellerOf(asks(), (request, response) =>
      isBack ? results()(request, response) : fails(402)(request, response),
    )
    const buyer = buyerFor([seller])
    const error = await buy(buyer, seller.url).catch((thrown: { orderId: string }) => thrown)
    isBack = true
    const { orderId } = error as { orderId: string }
    await buyer.recovery.look(orderId)
    expect(await buyer.purchases.order(orderId)).toMatchObject({ status: 'completed', output: 'the result' })
    const [first, second] = paymentsAt(seller)
    expect(second).toBe(first)
  })

  test('a canceled order is not sent again', async () => {
    const seller = await sellerOf(asks(), fails(402))
    const buyer = buyerFor([seller])
    const { orderId } = (await buy(buyer, seller.url).catch((thrown: unknown) => thrown)) as { orderId: string }
    await createOrderStore(buyer.database).cancel(orderId, buyer.clock.now())
    await buyer.recovery.look(orderId)
    expect(paymentsAt(seller)).toHaveLength(1)
  })

  test.each([
    ['unpaid', 'failed', 'released'],
    ['paid', 'executing', 'spent'],
  ])('when the payment has expired the chain decides: %s', async (kind, status, state) => {
    const seller = await sellerOf(asks(), fails(402))
    const settlement = new FakeSettlement()
    const buyer = buyerFor([seller], { chain: settlement.chain })
    const { orderId } = (await buy(buyer, seller.url).catch((thrown: unknown) => thrown)) as { orderId: string }
    const signed = await buyer.purchases.reservationOf(orderId)
    if (kind === 'paid') settlement.pay(signed!.envelope.payload!.authorization)
    buyer.clock.advance(20 * 60_000)
    await buyer.recovery.look(orderId)
    const reservation = await buyer.purchases.reservationOf(orderId)
    expect([(await buyer.purchases.order(orderId))!.status, reservation!.state]).toEqual([status, state])
    expect(new Set(paymentsAt(seller)).size).toBe(1)
  })
})

test('a seller that took the money and gives nothing has failed after a day, was paid once, and nobody else is asked', async () => {
  const target = await sellerOf(asks())
  const seller = await sellerOf(asks(), fails(500))
  const settlement = new FakeSettlement()
  const buyer = buyerFor([seller, target], { chain: settlement.chain })
  const { orderId } = (await buy(buyer, seller.url).catch((thrown: unknown) => thrown)) as { orderId: string }
  settlement.pay((await buyer.purchases.reservationOf(orderId))!.envelope.payload!.authorization)
  const look = async (minutes: number) => {
    buyer.clock.advance(minutes * 60_000)
    await buyer.recovery.look(orderId)
    const order = await buyer.purchases.order(orderId)
    return [order!.status, order!.error?.code, (await buyer.purchases.reservationOf(orderId))!.state]
  }
  expect(await look(20)).toEqual(['executing', undefined, 'spent'])
  // By this code the seller is measured.
  expect(await look(25 * 60)).toEqual(['failed', 'SELLER_FAILED', 'spent'])
  expect([new Set(paymentsAt(seller)).size, target.seen]).toEqual([1, []])
})

test('an answer that is packed is not unpacked', async () => {
  const packed = gzipSync(Buffer.alloc(50 * 1024 * 1024, 32))
  const seller = await start((request, response) => {
    expect(request.headers['accept-encoding']).toBe('identity')
    response.writeHead(200, { 'content-encoding': 'gzip', 'content-type': 'text/plain' }).end(packed)
  })
  const { output, output_base64 } = await buy(buyerFor([seller]), seller.url)
  expect(Buffer.from(output_base64 ?? output, 'base64').equals(packed)).toBe(true)
})

test('a seller of v1 is paid as v1 has it', async () => {
  const accepts = [
    {
      ...{ scheme: 'exact', network: 'base-sepolia', maxAmountRequired: '10000', resource: '/run', payTo },
      ...{ asset: askedBy('', payTo).accepts[0]!.asset, maxTimeoutSeconds: 60, extra: { name: 'USDC', version: '2' } },
    },
  ]
  const seller = await start((request, response) => {
    if (paymentIn(request) !== undefined) return results('of v1')(request, response)
    response.writeHead(402).end(JSON.stringify({ x402Version: 1, error: 'pay', accepts }))
  })
  const { output, web } = await buy(buyerFor([seller]), seller.url)
  expect([output, web!.x402_version]).toEqual(['of v1', 1])
  expect(readHeader(paymentsAt(seller)[0])).toMatchObject({ x402Version: 1, scheme: 'exact', network: 'base-sepolia' })
})

test('64 sellers are asked at once, and no more', async () => {
  const held: (() => void)[] = []
  const seller = await start((_, response) => void held.push(() => response.writeHead(404).end()))
  const buyer = buyerFor([seller])
  const asked = Array.from({ length: 64 }, () => buy(buyer, seller.url, { method: 'POST' }).catch(() => 'ended'))
  await expect(buy(buyer, seller.url)).rejects.toMatchObject({ code: 'OVERLOADED' })
  const ended = Promise.all(asked)
  while (held.length < 64) await new Promise(setImmediate)
  for (const release of held) release()
  expect(new Set(await ended)).toEqual(new Set(['ended']))
})

test('one token asks 32 sellers at once, and the others go on', async () => {
  const held: (() => void)[] = []
  const seller = await start((_, response) => void held.push(() => response.writeHead(404).end()))
  const buyer = buyerFor([seller])
  const [one, other] = ['one', 'other'].map((tokenId) => ({ scope: 'spend', tokenId }) as const)
  const asked = (caller?: UrlPurchase['caller']) =>
    buy(buyer, seller.url, { method: 'POST', ...(caller && { caller }) }).catch(({ code }) => code as unknown)
  const slow = Array.from({ length: 32 }, () => asked(one))
  expect(await asked(one)).toBe('OVERLOADED')
  const more = [asked(other), asked()]
  while (held.length < 34) await new Promise(setImmediate)
  for (const release of held.splice(0)) release()
  expect(new Set(await Promise.all([...slow, ...more]))).toEqual(new Set(['SELLER_FAILED']))
  const again = asked(one)
  while (held.length < 1) await new Promise(setImmediate)
  held[0]!()
  expect(await again).toBe('SELLER_FAILED')
})
