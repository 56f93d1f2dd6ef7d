import { streamPair } from '@libp2p/utils'
import { describe, expect, test } from 'vitest'
import { agentId, randomHex, requirements, usdc } from '../../test/support/payments.ts'
import { ScriptedSeller, type ScriptedStream } from '../../test/support/scripted-seller.ts'
import { startSeller } from '../../test/support/started-seller.ts'
import { TestBuyer, type TestBuyerOptions } from '../../test/support/test-buyer.ts'
import { until } from '../../test/support/until.ts'
import type { TestSellerOptions } from '../../test/support/x402-seller.ts'
import { AgentError } from '../agents/runtime.ts'
import { MarketError } from '../listings/market-error.ts'
import { TASK_BYTES_MAX } from '../schema/limits.ts'
import type { Hex } from '../schema/primitives.ts'

async function market(options: TestSellerOptions & Partial<TestBuyerOptions> = {}) {
  const seller = await startSeller(options)
  const open: TestBuyerOptions['open'] = (_peer, protocol) => seller.open('buyer', protocol)
  const buyer = new TestBuyer({ clock: seller.clock, open, ...options, database: undefined as never })
  return { seller, buyer }
}
const scripted = (script: (stream: ScriptedStream) => Promise<void>) =>
  new TestBuyer({ open: new ScriptedSeller(script).open })

describe('D17: what an execution gives', () => {
  test('T26 a seller that names the nonce of an earlier payment gets no second signature: the chain shows one for both', async () => {
    const nonce = randomHex()
    let paid = 0
    const buyer = scripted(async (stream) => {
      for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
        if (message.type === 'x402.request') await stream.challenge(message, { challenge_nonce: nonce })
        else {
          paid++
          await stream.respond(message)
        }
      }
    })
    await buyer.execute()
    await expect(buyer.execute()).rejects.toMatchObject({
      code: 'LISTING_MISMATCH',
      message: expect.stringMatching(/nonce/),
    })
    expect(paid).toBe(1)
  })

  test('of a paid agent: the result, and what was paid by which transaction', async () => {
    const { seller, buyer } = await market()
    const result = await buyer.execute({ input: 'a task', awaitsSettlement: true })
    const [{ order, reservation } = {}] = await buyer.ledger()
    const { from, nonce } = reservation!.envelope.payload!.authorization
    const use = seller.settlement.useOf(from, nonce) as { txHash: Hex }
    expect(result).toMatchObject({
      agent_id: agentId,
      seller_id: 'seller',
      output: 're: a task',
      order_id: order!.id,
      correlation_id: order!.correlationId,
      payment: {
        payment_id: reservation!.paymentId,
        network: usdc.network,
        amount: '0.01',
        amount_atomic: '10000',
        payer: buyer.deps.wallet.address,
        tx_hash: use.txHash,
        // D41: until this node's own chain shows it.
        settlement: 'claimed',
      },
    })
    expect(order).toMatchObject({ status: 'completed', output: 're: a task', price: 100_000n })
    expect(reservation).toMatchObject({ state: 'spent', txHash: use.txHash })
    expect(await buyer.spent()).toBe(10_000n)
  })

  test('while settlement is pending: no transaction', async () => {
    const { seller, buyer } = await market()
    seller.settlement.usual = { moves: false, answer: { kind: 'unclear', reason: 'down' } }
    const { payment } = await buyer.execute({ awaitsSettlement: true })
    expect(payment).toMatchObject({ tx_hash: '', settlement: 'pending' })
  })

  test('D46: before the seller has settled, unless the caller or the node waits for that', async () => {
    const { seller, buyer } = await market({ attemptTimeoutMs: 60_000 })
    const { settlement } = seller
    settlement.usual = { moves: true, answer: 'hang' }
    expect(await buyer.execute()).toMatchObject({
      output: 're: task',
      payment: { tx_hash: '', settlement: 'pending', amount_atomic: '10000' },
    })
    expect(await buyer.ledger()).toMatchObject([{ order: { status: 'completed' }, reservation: { state: 'spent' } }])
    expect(await buyer.spent()).toBe(10_000n)
    settlement.usual = { moves: true, answer: 'the transaction' }
    buyer.deps.awaitsSettlement = true
    expect((await buyer.execute()).payment).toMatchObject({ settlement: 'claimed' })
    expect((await buyer.execute({ awaitsSettlement: false })).payment).toMatchObject({ settlement: 'pending' })
  })

  test('of a free agent: no payment, over the free protocol', async () => {
    const { seller, buyer } = await market()
    expect(await buyer.execute({ agentId: 'free' })).toMatchObject({ output: 're: task', payment: null })
    expect(seller.runs).toEqual([{ input: 'task', callerId: 'did:buyer' }])
    expect(await buyer.ledger()).toMatchObject([{ order: { status: 'completed' }, reservation: undefined }])
  })

  test('of an own agent: it runs here, unpaid, whatever it costs others', async () => {
    const { seller, buyer } = await market()
    buyer.list({ id: 'mine', local: true, price: 10n ** 12n })
    expect(await buyer.execute({ agentId: 'mine' })).toMatchObject({ output: 'mine here: task', payment: null })
    expect(seller.runs).toEqual([])
  })
})

describe('is refused before anyone is asked', () => {
  test.each([
    ['an agent nobody knows', { agentId: 'nobody' }, 'UNKNOWN_AGENT'],
    ['the agent of every object', { agentId: '__proto__' }, 'UNKNOWN_AGENT'],
    ['a task longer than a frame can carry', { input: 'x'.repeat(TASK_BYTES_MAX + 1) }, 'INPUT_TOO_LARGE'],
    ['a price over what the call allows', { maxPriceAtomic: 9_999n }, 'OVER_PRICE'],
  ])('%s', async (_what, request, code) => {
    const { seller, buyer } = await market()
    await expect(buyer.execute(request)).rejects.toMatchObject({ name: 'MarketError', code })
    expect([await buyer.ledger(), seller.runs]).toEqual([[], []])
  })

  test('a price over what the node allows, whatever the call says', async () => {
    const { buyer } = await market({ maxPrice: 9_999n })
    const refused = buyer.execute({ maxPriceAtomic: 10n ** 12n })
    await expect(refused).rejects.toMatchObject({ code: 'OVER_PRICE', message: expect.stringContaining('--per-call') })
  })
})

test('the longest task passes, to a paid agent and to a free one', async () => {
  const { seller, buyer } = await market()
  seller.work = async ({ input }) => String(input.length)
  const input = 'x'.repeat(TASK_BYTES_MAX)
  expect((await buyer.execute({ input })).output).toBe(String(TASK_BYTES_MAX))
  expect((await buyer.execute({ input, agentId: 'free' })).output).toBe(String(TASK_BYTES_MAX))
})

test('a task that grows beyond a frame on its way to a free agent is too large, not the seller unreachable', async () => {
  const { buyer } = await market()
  await expect(buyer.execute({ agentId: 'free', input: '\u0001'.repeat(3_000_000) })).rejects.toMatchObject({
    name: 'MarketError',
    code: 'INPUT_TOO_LARGE',
  })
})

test('a task that grows beyond a frame for a seller of the original node is too large, and nothing is signed', async () => {
  const buyer = scripted(async (stream) => stream.challenge(await stream.next(), { challenge_nonce: 'ab'.repeat(32) }))
  await expect(buyer.execute({ input: '\u0001'.repeat(3_000_000) })).rejects.toMatchObject({
    name: 'MarketError',
    code: 'INPUT_TOO_LARGE',
    message: expect.stringContaining('nothing was paid'),
  })
  expect(await buyer.ledger()).toMatchObject([{ order: { status: 'failed' }, reservation: undefined }])
})

describe('T2: nothing is signed when the seller asks for', () => {
  const lies: [string, object, string][] = [
    ['more than it listed', { amount: '10001' }, 'LISTING_MISMATCH'],
    ['less than it listed', { amount: '9999' }, 'LISTING_MISMATCH'],
    ['everything', { amount: (2n ** 256n - 1n).toString() }, 'LISTING_MISMATCH'],
    ['payment to another', { payTo: usdc.address }, 'LISTING_MISMATCH'],
    ['another asset', { asset: `0x${'33'.repeat(20)}` }, 'LISTING_MISMATCH'],
    ['payment on the main network', { network: 'eip155:8453' }, 'LISTING_MISMATCH'],
    ['a payment valid for more than an hour and two minutes', { maxTimeoutSeconds: 3721 }, 'LISTING_MISMATCH'],
    ['another scheme', { scheme: 'upto' }, 'INVALID_MESSAGE'],
  ]
  test.each(lies)('%s', async (_what, changes, code) => {
    const asked = { ...requirements(), ...changes }
    const buyer = scripted(async (stream) => stream.challenge(await stream.next(), { payment_requirements: asked }))
    await expect(buyer.execute()).rejects.toMatchObject({ code })
    expect(await buyer.ledger()).toMatchObject([{ order: { status: 'failed' }, reservation: undefined }])
    expect(await buyer.spent()).toBe(0n)
  })

  test('payment in an asset that is listed but is not USDC (T14)', async () => {
    const asset: Hex = `0x${'33'.repeat(20)}`
    const buyer = scripted(async (stream) =>
      stream.challenge(await stream.next(), { payment_requirements: requirements({ asset }) }),
    )
    buyer.list({ asset })
    await expect(buyer.execute()).rejects.toThrow(/not USDC/)
    expect((await buyer.ledger())[0]?.reservation).toBeUndefined()
  })

  test('another amount after the challenge has expired, though the first was signed for', async () => {
    const buyer = scripted(async (stream) => {
      await stream.challenge(await stream.next())
      await stream.refuse(await stream.next(), 'PAYMENT_NONCE_EXPIRED', { error_code: 2003, retryable: true })
      await stream.challenge(await stream.next(), { payment_requirements: requirements({ amount: 10_001n }) })
    })
    await expect(buyer.execute()).rejects.toMatchObject({ code: 'LISTING_MISMATCH' })
    expect(await buyer.ledger()).toMatchObject([{ reservation: { amount: 10_000n } }])
  })
})

describe('D33: the daily budget', () => {
  test('is not exceeded by calls one after the other, nor by many at once', async () => {
    const { seller, buyer } = await market({ dailyBudget: 35_000n })
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => buyer.execute()))
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(3)
    for (const result of results)
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'OVER_BUDGET' })
    await expect(buyer.execute()).rejects.toMatchObject({ message: expect.stringContaining('--per-day') })
    expect([await buyer.spent(), seller.runs.length]).toEqual([30_000n, 3])
  })

  test('is new with the next UTC day', async () => {
    const { buyer } = await market({ dailyBudget: 10_000n })
    await buyer.execute()
    await expect(buyer.execute()).rejects.toMatchObject({ code: 'OVER_BUDGET' })
    buyer.clock.advance(24 * 60 * 60 * 1000)
    await buyer.execute()
  })

  test('keeps what a failed run may still cost until it is certain that it does not', async () => {
    const { seller, buyer } = await market()
    seller.work = () => Promise.reject(new AgentError('AGENT_FAILED', 'no'))
    await expect(buyer.execute()).rejects.toMatchObject({ code: 'EXECUTION_FAILED' })
    expect(await buyer.ledger()).toMatchObject([{ order: { status: 'failed' }, reservation: { state: 'reserved' } }])
    expect(await buyer.spent()).toBe(10_000n)
  })
})

describe('an order that failed', () => {
  test('keeps the seller’s error, and the caller hears it with the correlation id', async () => {
    const { seller, buyer } = await market()
    seller.agents.clear()
    const error = await buyer.execute().catch((reason: unknown) => reason)
    const [{ order } = {}] = await buyer.ledger()
    expect(error).toMatchObject({ name: 'PeerError', code: 'UNKNOWN_RESOURCE', correlationId: order!.correlationId })
    expect(order).toMatchObject({ status: 'failed', error: { code: 'UNKNOWN_RESOURCE', retryable: false } })
  })

  test('because the seller cannot be reached has paid nothing', async () => {
    const buyer = new TestBuyer({ open: () => Promise.reject(new Error('no route')) })
    await expect(buyer.execute()).rejects.toMatchObject({
      code: 'SELLER_UNREACHABLE',
      message: expect.stringContaining('nothing was paid'),
    })
    await expect(buyer.execute({ agentId: 'free' })).rejects.toMatchObject({ code: 'SELLER_UNREACHABLE' })
  })

  test('T16: because the reservation could not be stored has sent no payment', async () => {
    const received: string[] = []
    const seller = new ScriptedSeller(async (stream) => {
      for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
        received.push(message.type)
        await stream.challenge(message)
      }
    })
    const buyer = new TestBuyer({ open: seller.open })
    buyer.deps.purchases.reserve = () => Promise.reject(Object.assign(new Error('disk full'), { name: 'StoreError' }))
    await expect(buyer.execute()).rejects.toThrow('disk full')
    expect(new Set(received)).toEqual(new Set(['x402.request']))
  })
})

test('T16: a result that was paid for is given to the caller though it cannot be stored, and is stored later', async () => {
  const { seller, buyer } = await market()
  const { finish } = buyer.deps.purchases
  buyer.deps.purchases.finish = () => Promise.reject(Object.assign(new Error('disk full'), { name: 'StoreError' }))
  expect((await buyer.execute()).output).toBe('re: task')
  expect(await buyer.ledger()).toMatchObject([{ order: { status: 'executing' }, reservation: { state: 'reserved' } }])
  buyer.deps.purchases.finish = finish
  expect([buyer.deps.active.size, seller.runs.length]).toEqual([0, 1])
})

describe('a caller whose time is over', () => {
  test('before anything was signed has paid nothing', async () => {
    const caller = new AbortController()
    const buyer = scripted(async (stream) => {
      await stream.next()
      caller.abort()
    })
    await expect(buyer.execute({ signal: caller.signal })).rejects.toMatchObject({ name: 'MarketError' })
    expect(await buyer.ledger()).toMatchObject([{ order: { status: 'failed' }, reservation: undefined }])
  })

  test('after the payment was signed is told that the result is pending, and the order stays open', async () => {
    const caller = new AbortController()
    const buyer = scripted(async (stream) => {
      await stream.challenge(await stream.next())
      await stream.next()
      caller.abort()
    })
    await expect(buyer.execute({ signal: caller.signal })).rejects.toMatchObject({ code: 'RESULT_PENDING' })
    expect(await buyer.ledger()).toMatchObject([{ order: { status: 'executing' }, reservation: { state: 'reserved' } }])
    // It goes on without its caller (D38).
    expect(buyer.deps.active.size).toBe(1)
  })

  test('T23: whatever the reason of the signal is', async () => {
    for (const reason of [new Error('gone'), new MarketError('DEADLINE', 'no answer in time')]) {
      const controller = new AbortController()
      const buyer = scripted(async (stream) => {
        await stream.challenge(await stream.next())
        await stream.next()
        controller.abort(reason)
      })
      await expect(buyer.execute({ signal: controller.signal })).rejects.toMatchObject({ code: 'RESULT_PENDING' })
      expect(await buyer.ledger()).toMatchObject([{ order: { status: 'executing' } }])
    }
  })
})

test('T15 a seller that keeps all calls waiting holds up the next one for a bounded time, and is not paid for it', async () => {
  const caller = new AbortController()
  const seller = new ScriptedSeller(async (stream) => {
    await stream.challenge(await stream.next(), { challenge_nonce: randomHex() })
    await stream.next()
  })
  const buyer = new TestBuyer({ open: seller.open, dailyBudget: 100_000_000n, slotStalledMs: 100 })
  const calls = Array.from({ length: 112 }, () => buyer.execute({ signal: caller.signal }).catch(() => {}))
  await until(() => seller.received.length === 2 * calls.length)
  const told = { code: 'OVERLOADED', retryable: true, message: expect.stringContaining('this call was not sent') }
  await expect(buyer.execute()).rejects.toMatchObject(told)
  const unsigned = (await buyer.ledger()).filter(({ reservation }) => reservation === undefined)
  expect(unsigned).toMatchObject([{ order: { status: 'failed', error: told } }])
  expect(seller.opened).toBe(calls.length)
  caller.abort()
  await Promise.all(calls)
})

test('a free call whose caller goes ends the stream, so that the seller can stop', async () => {
  const [ours, theirs] = await streamPair({ protocol: '/test' })
  const buyer = new TestBuyer({ open: async () => ours })
  const caller = new AbortController()
  theirs.addEventListener('message', () => caller.abort(), { once: true })
  const called = buyer.execute({ agentId: 'free', signal: caller.signal })
  await expect(called).rejects.toMatchObject({ name: 'MarketError' })
  expect(ours.status).toBe('aborted')
  expect(theirs.status).not.toBe('closed')
})

test('T10: a result of broken bytes is text all the same', async () => {
  const buyer = scripted(async (stream) => {
    await stream.respond(await stream.next(), { body: Buffer.from([0xff, 0x41]).toString('base64') })
  })
  expect((await buyer.execute()).output).toBe('\ufffdA')
})

test('T13: a transaction hash that the seller names is passed on as its word', async () => {
  const txHash = randomHex()
  const buyer = scripted(async (stream) => {
    await stream.challenge(await stream.next())
    await stream.respond(await stream.next(), { tx_hash: txHash })
  })
  expect((await buyer.execute()).payment).toMatchObject({ tx_hash: txHash })
})
