import { afterEach, describe, expect, test, vi } from 'vitest'
import { endProcess } from '../../test/support/end-process.ts'
import { failNext } from '../../test/support/fail-next.ts'
import { FakeSettlement } from '../../test/support/fake-settlement.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { randomHex } from '../../test/support/payments.ts'
import { ScriptedSeller, type ScriptedStream } from '../../test/support/scripted-seller.ts'
import { TestBuyer, type TestBuyerOptions } from '../../test/support/test-buyer.ts'
import { until } from '../../test/support/until.ts'
import { openDatabase } from '../store/database.ts'

const buyers: TestBuyer[] = []
afterEach(async () => {
  await Promise.all(buyers.splice(0).map((buyer) => buyer.recovery.stop()))
})

/** A buyer whose process has ended after the payment was sent, and its next life, which has yet to start. */
async function interrupted(script: (stream: ScriptedStream) => Promise<void>, options: Partial<TestBuyerOptions> = {}) {
  const database = openDatabase({ path: ':memory:' })
  const clock = new HandClock()
  const settlement = new FakeSettlement()
  const process = new AbortController()
  const silent = new ScriptedSeller(async (stream) => {
    await stream.challenge(await stream.next())
    await stream.next()
    process.abort()
  })
  const before = new TestBuyer({ database, clock, open: silent.open })
  await before.execute({ signal: process.signal }).catch(() => {})
  const [{ order, reservation } = {}] = await before.ledger()
  expect([order?.status, reservation?.state]).toEqual(['executing', 'reserved'])
  const seller = new ScriptedSeller(script)
  const buyer = new TestBuyer({ database, clock, open: seller.open, chain: settlement.chain, ...options })
  buyers.push(buyer)
  const authorization = reservation!.envelope.payload!.authorization
  const validBeforeMs = reservation!.validBeforeSeconds * 1000
  const now = async () => (await buyer.ledger())[0]!
  return {
    buyer,
    seller,
    settlement,
    authorization,
    order: order!,
    reservation: reservation!,
    clock,
    validBeforeMs,
    now,
  }
}
const down = () => Promise.reject(new Error('the seller is down'))
const refusing = (name: string, retryable: boolean) => async (stream: ScriptedStream) => {
  for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
    await stream.refuse(message, name, { retryable })
  }
}

describe('after a restart, while the payment can be settled', () => {
  test('a wall clock that is set back by an hour does not stop the asking', async () => {
    let asked = 0
    const open = () => {
      asked++
      return down()
    }
    const { buyer, clock } = await interrupted(async () => {}, { open })
    await buyer.recovery.start()
    await until(() => asked > 0)
    const before = asked
    clock.jump(-3_600_000)
    clock.advance(10_000)
    await until(() => asked > before)
  })

  test('a ledger that cannot be read once does not end the asking', async () => {
    const { buyer, now } = await interrupted(async (stream) => stream.respond(await stream.next()))
    const { open } = buyer.purchases
    let failures = 0
    buyer.purchases.open = (...asked) => {
      if (failures++ === 0) throw new Error('disk I/O error')
      return open(...asked)
    }
    await buyer.recovery.start()
    await until(() => failures === 1)
    await until(async () => {
      buyer.recovery.soon()
      return (await now()).order.status === 'completed'
    })
  })

  test('the seller is asked for the result with the same payment, and nothing is signed', async () => {
    const txHash = randomHex()
    const { buyer, seller, reservation, order, now } = await interrupted(async (stream) =>
      stream.respond(await stream.next(), { tx_hash: txHash }),
    )
    await buyer.recovery.start()
    await until(async () => (await now()).order.status === 'completed')
    expect(await now()).toMatchObject({ order: { output: 'result' }, reservation: { state: 'spent', txHash } })
    expect(seller.received).toMatchObject([
      {
        type: 'x402.request',
        message: { method: 'result', payment: reservation.envelope, correlation_id: order.correlationId },
      },
    ])
    expect([(await buyer.ledger()).length, await buyer.spent()]).toEqual([1, 10_000n])
  })

  test.each([
    ['the run failed', 'EXECUTION_FAILED', false, 'no'],
    ['the payment never arrived', 'PAYMENT_REQUIRED', true, 'nothing is charged so far, and the amount stays held'],
  ])(
    'and answers that %s, the order fails and the reservation stays until it is certain',
    async (_what, name, retryable, told) => {
      const { buyer, now } = await interrupted(refusing(name, retryable))
      await buyer.recovery.start()
      await until(async () => (await now()).order.status === 'failed')
      const error = { code: name, message: expect.stringContaining(told), retryable }
      expect(await now()).toMatchObject({ order: { error }, reservation: { state: 'reserved' } })
      expect(await buyer.spent()).toBe(10_000n)
    },
  )

  test('and cannot be reached, or asks to wait, the order stays open', async () => {
    for (const open of [down, new ScriptedSeller(refusing('OVERLOADED', true)).open]) {
      let asked = 0
      const counting = async () => {
        asked++
        return await open()
      }
      const { buyer, now } = await interrupted(async () => {}, { open: counting })
      await buyer.recovery.start()
      await until(() => asked > 0)
      await buyer.recovery.stop()
      expect(await now()).toMatchObject({ order: { status: 'executing' }, reservation: { state: 'reserved' } })
    }
  })

  test('an order that someone waits for is left alone', async () => {
    const { buyer, seller, order } = await interrupted(async (stream) => stream.respond(await stream.next()))
    buyer.deps.active.set(order.id, () => {})
    await buyer.recovery.look(order.id)
    expect(seller.received).toEqual([])
  })
})

describe('once the payment can no longer be settled, the chain decides', () => {
  test('not before, and not while the chain’s clock may lag', async () => {
    const { buyer, order, clock, validBeforeMs, now, settlement } = await interrupted(async () => {}, { open: down })
    let asked = 0
    const { authorizationUse } = settlement.chain
    settlement.chain.authorizationUse = (...args) => {
      asked++
      return authorizationUse(...args)
    }
    clock.set(validBeforeMs + 30_000)
    await buyer.recovery.look(order.id)
    expect([asked, (await now()).reservation?.state]).toEqual([0, 'reserved'])
  })

  test('unpaid: the reservation is given back to its day', async () => {
    const { buyer, clock, validBeforeMs, now } = await interrupted(async () => {}, { open: down })
    clock.set(validBeforeMs + 30_001)
    await buyer.recovery.start()
    await until(async () => (await now()).reservation?.state === 'released')
    expect((await now()).order).toMatchObject({
      status: 'failed',
      error: { message: expect.stringContaining('nothing was charged') },
    })
    expect(await buyer.spent()).toBe(0n)
  })

  test('D44: paid: it is spent, and the order stays in doubt until its seller can be asked', async () => {
    let isUp = false
    const seller = new ScriptedSeller(async (stream) => stream.respond(await stream.next()))
    const open = () => (isUp ? seller.open() : down())
    const { buyer, clock, validBeforeMs, now, settlement, authorization } = await interrupted(async () => {}, { open })
    const txHash = settlement.pay(authorization)
    clock.set(validBeforeMs + 30_001)
    await buyer.recovery.start()
    await until(async () => (await now()).reservation?.state === 'spent')
    await buyer.recovery.stop()
    expect(await now()).toMatchObject({ reservation: { txHash }, order: { status: 'executing', error: undefined } })
    expect(await buyer.spent()).toBe(10_000n)
    isUp = true
    const next = new TestBuyer({ ...buyer, open, chain: settlement.chain })
    await next.recovery.start()
    await until(async () => (await now()).order.status === 'completed')
    await next.recovery.stop()
    expect(await now()).toMatchObject({ reservation: { state: 'spent', txHash }, order: { output: 'result' } })
  })

  test('D44: paid: whatever the seller answers, the order stays in doubt', async () => {
    const { buyer, order, clock, validBeforeMs, now, settlement, authorization } = await interrupted(
      refusing('UNKNOWN_RESOURCE', false),
      { open: down },
    )
    settlement.pay(authorization)
    clock.set(validBeforeMs + 30_001)
    await buyer.recovery.look(order.id)
    const refused = new ScriptedSeller(refusing('UNKNOWN_RESOURCE', false))
    const next = new TestBuyer({ ...buyer, open: refused.open, chain: settlement.chain })
    await next.recovery.look(order.id)
    expect([refused.received.length, (await now()).order.status, (await now()).reservation?.state]).toEqual([
      1,
      'executing',
      'spent',
    ])
  })

  test('D44: paid: a seller that is gone is asked with growing pauses for as long as it keeps results', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const asked: number[] = []
      const { buyer, clock, validBeforeMs, now, settlement, authorization } = await interrupted(async () => {}, {
        open: () => {
          asked.push(clock.now())
          return down()
        },
      })
      const txHash = settlement.pay(authorization)
      const expired = validBeforeMs + 30_001
      clock.set(expired)
      await buyer.recovery.start()
      for (const end = expired + 25 * 60 * 60 * 1000; clock.now() < end; ) {
        clock.advance(60_000)
        await vi.advanceTimersByTimeAsync(15_000)
      }
      const hours = (time: number) => (time - expired) / (60 * 60 * 1000)
      expect(asked.length).toBeGreaterThan(100)
      expect(asked.length).toBeLessThan(200)
      expect(hours(asked.at(-1)!)).toBeGreaterThan(23.5)
      expect(hours(asked.at(-1)!)).toBeLessThan(24.5)
      const message = expect.stringContaining(txHash)
      expect((await now()).order).toMatchObject({ status: 'failed', error: { code: 'SELLER_FAILED', message } })
    } finally {
      vi.useRealTimers()
    }
  })

  test('D44: paid: after that its operator may ask all the same', async () => {
    const { buyer, order, clock, validBeforeMs, now, settlement, authorization } = await interrupted(async () => {}, {
      open: down,
    })
    settlement.pay(authorization)
    clock.set(validBeforeMs + 25 * 60 * 60 * 1000)
    await buyer.recovery.look(order.id)
    await buyer.recovery.look(order.id)
    expect([(await now()).order.status, (await now()).reservation?.state]).toEqual(['failed', 'spent'])
    const seller = new ScriptedSeller(async (stream) => stream.respond(await stream.next()))
    const next = new TestBuyer({ ...buyer, open: seller.open, chain: settlement.chain })
    await next.recovery.look(order.id)
    expect((await now()).order).toMatchObject({ status: 'completed', output: 'result', error: undefined })
  })

  test('T23: paid, though the seller said that nothing came: its result is asked for once more', async () => {
    let knows = false
    const { buyer, clock, validBeforeMs, now, settlement, authorization } = await interrupted(async (stream) => {
      for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
        if (knows) await stream.respond(message)
        else await stream.refuse(message, 'PAYMENT_REQUIRED', { retryable: true })
      }
    })
    await buyer.recovery.start()
    await until(async () => (await now()).order.status === 'failed')
    await buyer.recovery.stop()
    settlement.pay(authorization)
    knows = true
    clock.set(validBeforeMs + 30_001)
    const { recovery } = new TestBuyer({ ...buyer, open: buyer.deps.openStream, chain: settlement.chain })
    await recovery.start()
    await until(async () => (await now()).order.status === 'completed')
    await recovery.stop()
    expect(await now()).toMatchObject({
      order: { output: 'result', error: undefined },
      reservation: { state: 'spent' },
    })
  })

  test('T15: with no chain to ask it counts as spent after a day, and not before', async () => {
    const { buyer, order, clock, validBeforeMs, now, settlement } = await interrupted(async () => {}, { open: down })
    settlement.chainIsDown = true
    clock.set(validBeforeMs + 23 * 60 * 60 * 1000)
    await buyer.recovery.look(order.id)
    expect((await now()).reservation?.state).toBe('reserved')
    clock.set(validBeforeMs + 24 * 60 * 60 * 1000)
    const next = new TestBuyer({ ...buyer, open: down, chain: settlement.chain })
    await next.recovery.start()
    await until(async () => (await now()).reservation?.state === 'spent')
    await next.recovery.stop()
    expect((await now()).order).toMatchObject({
      status: 'failed',
      error: { message: expect.stringContaining('could not be asked') },
    })
  })

  test('T16: a clock that runs days ahead ends nothing that the chain can still settle', async () => {
    let isUp = false
    const open = () => (isUp ? seller.open() : down())
    const { buyer, seller, clock, validBeforeMs, now, settlement, order } = await interrupted(
      async (stream) => stream.respond(await stream.next()),
      { open },
    )
    settlement.blockTimeMs = clock.now()
    const aheadMs = validBeforeMs + 3 * 24 * 60 * 60 * 1000 - clock.now()
    clock.jump(aheadMs)
    await buyer.recovery.look(order.id)
    expect(await now()).toMatchObject({ order: { status: 'executing' }, reservation: { state: 'reserved' } })
    clock.jump(-aheadMs)
    isUp = true
    await buyer.recovery.look(order.id)
    expect(await now()).toMatchObject({ order: { status: 'completed' }, reservation: { state: 'spent' } })
  })

  test('T16 D44: paid: a clock that runs days ahead does not end the asking of its seller', async () => {
    const { buyer, clock, validBeforeMs, now, settlement, authorization, order } = await interrupted(async () => {}, {
      open: down,
    })
    settlement.pay(authorization)
    settlement.blockTimeMs = validBeforeMs + 60_000
    clock.set(validBeforeMs + 60_000)
    await buyer.recovery.look(order.id)
    expect((await now()).reservation?.state).toBe('spent')
    clock.jump(3 * 24 * 60 * 60 * 1000)
    await buyer.recovery.look(order.id)
    expect((await now()).order.status).toBe('executing')
    settlement.blockTimeMs = clock.now()
    await buyer.recovery.look(order.id)
    expect((await now()).order.status).toBe('failed')
  })

  test('T16: killed between its two writes, it is done again and comes to the same end', async () => {
    const { buyer, clock, validBeforeMs, now, settlement } = await interrupted(async () => {}, {
      open: down,
    })
    clock.set(validBeforeMs + 30_001)
    const { resolve } = buyer.purchases
    buyer.purchases.resolve = () => Promise.reject(new Error('killed'))
    await buyer.recovery.start()
    await until(async () => (await now()).order.status === 'failed')
    await buyer.recovery.stop()
    const message = (await now()).order.error?.message
    buyer.purchases.resolve = resolve
    const next = new TestBuyer({ ...buyer, open: down, chain: settlement.chain })
    await next.recovery.start()
    await until(async () => (await now()).reservation?.state === 'released')
    await next.recovery.stop()
    expect((await now()).order.error?.message).toBe(message)
  })
})

describe('D46: a result that came before its settlement', () => {
  async function received(options: { chainIsDown?: boolean } = {}) {
    const txHash = randomHex()
    const bought = await interrupted(async (stream) => {
      for (let asked = await stream.next(); asked !== undefined; asked = await stream.next())
        await stream.respond(asked, { tx_hash: txHash })
    })
    bought.settlement.chainIsDown = options.chainIsDown === true
    await bought.buyer.purchases.finish(
      { ...bought.order, status: 'completed', output: 'mine' },
      { paymentId: bought.reservation.paymentId, amount: 1n, txHash: undefined },
    )
    return { ...bought, txHash }
  }

  test('gets its transaction from the chain, without another word to its seller', async () => {
    const { buyer, seller, settlement, authorization, now } = await received()
    const paid = settlement.pay(authorization)
    await buyer.recovery.start()
    await until(async () => (await now()).reservation?.txHash)
    expect(await now()).toMatchObject({
      order: { output: 'mine' },
      reservation: { txHash: paid, confirmation: 'chain' },
    })
    expect(seller.received).toEqual([])
  })

  test('gets it from its seller while the chain cannot be asked', async () => {
    const { buyer, now, txHash } = await received({ chainIsDown: true })
    await buyer.recovery.start()
    await until(async () => (await now()).reservation?.txHash)
    expect(await now()).toMatchObject({ order: { output: 'mine' }, reservation: { txHash, confirmation: 'awaited' } })
  })

  test('gets it from its seller when its owner asks, before the chain shows it', async () => {
    const { buyer, order, now, txHash, seller } = await received()
    await buyer.recovery.start()
    await buyer.recovery.look(order.id)
    expect(await now()).toMatchObject({ order: { output: 'mine' }, reservation: { txHash } })
    expect(seller.received).toHaveLength(1)
  })
})

describe('a result whose seller never names a transaction', () => {
  const cases: ['paid' | 'unpaid', object, bigint][] = [
    ['paid', { state: 'spent' }, 10_000n],
    ['unpaid', { state: 'released', txHash: undefined }, 0n],
  ]
  test.each(cases)('was %s as the chain has it, once its window has ended', async (was, end, spent) => {
    const { buyer, reservation, order, now, settlement, authorization, clock, validBeforeMs } = await interrupted(
      async (stream) => stream.respond(await stream.next(), { tx_hash: '' }),
    )
    await buyer.purchases.finish(
      { ...order, status: 'completed', output: 'mine' },
      { paymentId: reservation.paymentId, amount: 1n, txHash: undefined },
    )
    const txHash = was === 'paid' ? settlement.pay(authorization) : undefined
    clock.set(validBeforeMs + 30_001)
    await buyer.recovery.start()
    await until(
      async () => (await now()).reservation?.txHash !== undefined || (await now()).reservation?.state === 'released',
    )
    expect(await now()).toMatchObject({
      order: { status: 'completed', output: 'mine' },
      reservation: { ...end, txHash },
    })
    expect(await buyer.spent()).toBe(spent)
  })
})

test.each(['reserved', 'spent'] as const)(
  'T16: what is %s is given back only when the window has ended by the time of the chain as well',
  async (state) => {
    const { buyer, reservation, order, now, settlement, authorization, clock, validBeforeMs } = await interrupted(
      async (stream) => stream.respond(await stream.next(), { tx_hash: '' }),
      state === 'reserved' ? { open: down } : {},
    )
    if (state === 'spent') {
      const paid = { paymentId: reservation.paymentId, amount: 1n, txHash: undefined }
      await buyer.purchases.finish({ ...order, status: 'completed', output: 'mine' }, paid)
    }
    // Our clock jumped by an hour, or the RPC is behind.
    settlement.blockTimeMs = validBeforeMs + 10_000
    clock.set(validBeforeMs + 60 * 60 * 1000)
    const asked = vi.spyOn(settlement.chain, 'authorizationUse')
    await buyer.recovery.start()
    await until(() => asked.mock.calls.length > 0)
    await buyer.recovery.stop()
    expect([(await now()).reservation?.state, await buyer.spent()]).toEqual([state, 10_000n])
    const txHash = settlement.pay(authorization)
    const next = new TestBuyer({ ...buyer, open: buyer.deps.openStream, chain: settlement.chain })
    await next.recovery.start()
    await until(async () => (await now()).reservation?.txHash)
    await next.recovery.stop()
    expect((await now()).reservation).toMatchObject({ state: 'spent', txHash })
  },
)

test('T17: an order that a crash left executing is taken up again where nothing was signed for it', async () => {
  const { buyer, order, clock } = await interrupted(refusing('OVERLOADED', true))
  const free = { ...order, id: 'free order', updatedAt: clock.now() - 1 }
  await buyer.purchases.finish(free)
  endProcess(buyer.database)
  await buyer.recovery.start()
  expect(await buyer.purchases.order(free.id)).toMatchObject({ status: 'pending', error: undefined })
  expect((await buyer.purchases.order(order.id))?.status).toBe('executing')
})

test('however many purchases have failed and wait to expire, the next one is looked after (T15)', async () => {
  const { buyer, order, reservation: last } = await interrupted(async (stream) => stream.respond(await stream.next()))
  for (let index = 0; index < 40; index++) {
    const other = { ...order, id: `failed ${index}` }
    const validBeforeSeconds = last.validBeforeSeconds - 1
    const reservation = { ...structuredClone(last), orderId: other.id, paymentId: randomHex(), validBeforeSeconds }
    reservation.envelope.payload!.authorization.validBefore = BigInt(validBeforeSeconds)
    expect(await buyer.purchases.reserve(other, reservation, { day: '2020-01-01', limits: () => ({}) })).toBe(
      'reserved',
    )
    await buyer.purchases.finish({ ...other, status: 'failed' })
  }
  await buyer.recovery.start()
  await until(async () => (await buyer.purchases.order(order.id))?.status === 'completed')
})

test('T20 D44: purchases that stay open hide no newer one: each is checked in its turn', async () => {
  const answers = async (stream: ScriptedStream) => stream.respond(await stream.next())
  const { buyer, seller, order, reservation, clock } = await interrupted(answers, { chain: undefined })
  const checked = new Set<string>()
  const old = Array.from({ length: 1_100 }, (_, n) => `old ${n}`)
  // Their windows ended an hour ago, and no RPC says what became of them.
  const validBeforeSeconds = Math.floor(clock.now() / 1000) - 3_600
  const { payload } = reservation.envelope
  for (const id of old) {
    const before = { ...order, id, status: 'failed' as const, correlationId: id }
    const signedBefore = { ...reservation, orderId: id, paymentId: randomHex(), validBeforeSeconds }
    const authorization = { ...payload!.authorization, nonce: randomHex(), validBefore: BigInt(validBeforeSeconds) }
    const envelope = { ...reservation.envelope, server_nonce: randomHex(), payload: { ...payload!, authorization } }
    const stored = { ...signedBefore, envelope }
    expect(await buyer.purchases.reserve(before, stored, { day: '2026-01-01', limits: () => ({}) })).toBe('reserved')
  }
  const { reservationOf } = buyer.purchases
  buyer.purchases.reservationOf = (id) => {
    checked.add(id)
    return reservationOf(id)
  }
  await buyer.recovery.start()
  await until(() => checked.size === old.length + 1 || void clock.advance(100))
  await until(async () => (await buyer.purchases.order(order.id))?.status === 'completed')
  expect(seller.received).toHaveLength(1)
})

test('a result that came and could not be stored is not given up, however late it is', async () => {
  const asked = await interrupted(async (stream) => {
    for (let message = await stream.next(); message !== undefined; message = await stream.next())
      await stream.respond(message)
  })
  const { buyer, clock, order, reservation, now } = asked
  await buyer.purchases.resolve(reservation, 'spent', randomHex(), clock.now())
  clock.jump(30 * 24 * 3_600_000)
  failNext(buyer.purchases, 'finish')
  await expect(buyer.recovery.look(order.id)).rejects.toThrow('cannot be reached')
  expect((await now()).order.status).toBe('executing')
  await buyer.recovery.look(order.id)
  expect((await now()).order).toMatchObject({ status: 'completed', output: 'result' })
})
