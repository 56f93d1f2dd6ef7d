import fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import { endProcess } from '../../test/support/end-process.ts'
import { listingFixture, localId, remoteId } from '../../test/support/fake-api.ts'
import { createFakeMarket } from '../../test/support/fake-market.ts'
import { agentId, payTo, usdc } from '../../test/support/payments.ts'
import { ScriptedSeller, type ScriptedStream } from '../../test/support/scripted-seller.ts'
import { until } from '../../test/support/until.ts'
import { createLedger, openRecords } from '../ledger/ledger.ts'
import { ledgerMeters, meterNames } from '../ledger/ledger-meters.ts'
import { systemClock } from '../lib/clock.ts'
import { silentLogger } from '../lib/logger.ts'
import { Meters } from '../lib/meters.ts'
import { MarketError } from '../listings/market-error.ts'
import type { Caller } from '../schema/caller.ts'
import type { Listing } from '../schema/listing.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { createMeasureStore } from '../store/measures.ts'
import { createMeasures } from '../trust/measures.ts'
import type { Buyer, BuyerDeps } from './buyer.ts'

type Run = { input: string; signal: AbortSignal; end(output: string): void; fail(error: Error): void }

const live = new Set<Buyer>()
afterEach(async () => {
  for (const buyer of live) await stop(buyer)
})

/** A buyer whose own agents end when the test says so. */
async function market(options: Partial<BuyerDeps> & { listings?: Listing[]; database?: Database } = {}) {
  const { listings = [listingFixture({ id: localId, local: true })], ...deps } = options
  const runs: Run[] = []
  let heard = (_listing: { id: string; state: 'active' | 'delisted' }) => {}
  const buyer = createFakeMarket(() => listings, {
    database: openDatabase({ path: ':memory:' }),
    runOwn: (_id, { input, signal }) =>
      new Promise((end, fail) => {
        runs.push({ input, signal, end, fail })
        signal.addEventListener('abort', () => fail(signal.reason), { once: true })
      }),
    replica: {
      onChange(listener) {
        heard = listener as typeof heard
        return () => {}
      },
    },
    ...deps,
  })
  live.add(buyer)
  for (const service of buyer.services) await service.start()
  const run = (input: string) => until(() => runs.find((one) => one.input === input))
  return {
    ...buyer,
    buyer,
    listings,
    runs,
    run,
    list: (listing: Listing) => {
      listings.push(listing)
      heard({ id: listing.id, state: 'active' })
    },
  }
}
async function stop(buyer: Buyer): Promise<void> {
  live.delete(buyer)
  for (const service of buyer.services.toReversed()) await service.stop()
}
const order = (agentId = localId, more: object = {}) => ({ agentId, price: 100_000n, ...more })
const settled = ({ orders }: Pick<Buyer, 'orders'>, id: string) => orders.settled(id, { limitMs: 5_000 })

describe('D18: an order', () => {
  test('with a task executes in the background, and ends with its output', async () => {
    const { orders, run } = await market()
    const placed = await orders.create(order(localId, { task: 'do' }))
    expect(placed).toMatchObject({
      status: 'pending',
      seller_id: null,
      task: 'do',
      price: 100_000n,
      price_atomic: '100000',
    })
    ;(await run('do')).end('done')
    const ended = await settled({ orders }, placed.id)
    expect(ended).toMatchObject({
      status: 'completed',
      output: 'done',
      agent_name: expect.any(String),
      correlation_id: expect.any(String),
    })
    expect(ended.seller_id).toBe(listingFixture().seller_id)
    expect(ended).not.toHaveProperty('payment')
  })

  test('without a task waits for it, and takes one only once', async () => {
    const { orders, run, runs } = await market()
    const { id } = await orders.create(order())
    await expect(orders.execute(id, 'x'.repeat(7_000_000))).rejects.toMatchObject({ code: 'INPUT_TOO_LARGE' })
    expect(await orders.execute(id, 'now')).toMatchObject({ task: 'now' })
    await run('now')
    await expect(orders.execute(id, 'again')).rejects.toMatchObject({ code: 'ORDER_NOT_WAITING' })
    runs[0]!.end('')
    expect(await settled({ orders }, id)).toMatchObject({ status: 'completed', output: '' })
    await expect(orders.execute(id, 'later')).rejects.toMatchObject({ code: 'ORDER_FINAL' })
    expect(runs).toHaveLength(1)
  })

  test('of one token leaves places for others: 16 execute at once, and each that ends lets the next one begin', async () => {
    const listings = [listingFixture({ id: localId, local: true, price: 0n, price_atomic: '0' })]
    const { orders, run, runs } = await market({ listings })
    const caller: Caller = { scope: 'execute', tokenId: 'ann' }
    const placed = []
    for (let n = 0; n < 40; n++) placed.push(await orders.create(order(localId, { task: `ann ${n}`, caller })))
    await orders.create(order(localId, { task: 'operator' }))
    ;(await run('operator')).end('')
    const ofAnn = () => runs.filter(({ input }) => input.startsWith('ann'))
    expect(ofAnn()).toHaveLength(16)
    // One that waits and is canceled keeps nobody waiting.
    await orders.cancel(placed[16]!.id, caller)
    for (let ended = 0; ended < 39; ended++) (await until(() => ofAnn()[ended])).end('')
    const states = await Promise.all(placed.map(async ({ id }) => (await settled({ orders }, id)).status))
    expect(states.filter((state) => state === 'completed')).toHaveLength(39)
    expect(states[16]).toBe('cancelled')
  })

  test('D48 takes its task from its owner or the operator', async () => {
    const { orders } = await market()
    const by = (scope: Caller['scope'], tokenId: string): Caller => ({ scope, tokenId })
    const [ann, bob] = [by('spend', 'ann'), by('spend', 'bob')]
    const anns = await orders.create({ ...order(), caller: ann })
    const operators = await orders.create(order())
    for (const [{ id }, caller] of [
      [anns, bob],
      [operators, bob],
      [operators, by('execute', 'eve')],
    ] as const) {
      await expect(orders.execute(id, 'mine', caller)).rejects.toMatchObject({ code: 'UNKNOWN_ORDER' })
      expect((await orders.get(id)).task).toBeNull()
    }
    expect(await orders.execute(anns.id, 'a', ann)).toMatchObject({ task: 'a' })
    expect(await orders.execute(operators.id, 'b')).toMatchObject({ task: 'b' })
  })

  test('for an agent nobody knows waits until it comes, however many do', async () => {
    const { orders, run, list } = await market({ listings: [] })
    const placed = await Promise.all(['a', 'b'].map((task) => orders.create(order('later', { task }))))
    const canceled = await orders.create(order('later', { task: 'c' }))
    await orders.cancel(canceled.id)
    expect((await orders.list({ limit: 10, status: 'pending' })).items).toHaveLength(2)
    list(listingFixture({ id: 'later', local: true }))
    for (const task of ['b', 'a']) (await run(task)).end(`did ${task}`)
    for (const { id } of placed) expect((await settled({ orders }, id)).status).toBe('completed')
    expect((await orders.get(canceled.id)).status).toBe('cancelled')
  })

  test('whose agent has become too dear fails, and nobody is asked', async () => {
    const { orders } = await market({
      listings: [listingFixture({ id: remoteId, price: 100_001n })],
      openStream: () => expect.fail('asked'),
    })
    const { id } = await orders.create(order(remoteId, { task: 'x' }))
    expect(await settled({ orders }, id)).toMatchObject({
      status: 'failed',
      error: { code: 'OVER_PRICE', retryable: false },
    })
  })

  test('whose seller cannot be reached fails as one that may be tried again', async () => {
    const { orders } = await market({ listings: [listingFixture({ id: remoteId })] })
    const { id } = await orders.create(order(remoteId, { task: 'x' }))
    expect(await settled({ orders }, id)).toMatchObject({
      status: 'failed',
      error: { code: 'SELLER_UNREACHABLE', retryable: true, message: expect.stringContaining('nothing was paid') },
    })
  })

  test('is as well what was executed directly', async () => {
    const { execute, orders, run } = await market()
    const execution = execute({ agentId: localId, input: 'direct', signal: AbortSignal.timeout(5_000) })
    ;(await run('direct')).end('out')
    const { order_id } = await execution
    expect(await orders.get(order_id!)).toMatchObject({ status: 'completed', task: 'direct', output: 'out' })
    expect((await orders.list({ limit: 1 })).items.map(({ id }) => id)).toEqual([order_id])
  })

  test('that is not there is told as such', async () => {
    const { orders } = await market()
    for (const ask of [() => orders.execute('x', 'y'), () => orders.cancel('x'), () => settled({ orders }, 'x')]) {
      await expect(ask()).rejects.toMatchObject({ code: 'UNKNOWN_ORDER' })
    }
  })
})

describe('D18: canceling', () => {
  test('an order that waits ends it at once; a second time is too late', async () => {
    const { orders } = await market()
    const { id } = await orders.create(order())
    expect(await orders.cancel(id)).toMatchObject({ status: 'cancelled' })
    await expect(orders.cancel(id)).rejects.toMatchObject({ code: 'ORDER_FINAL' })
    await expect(orders.execute(id, 'x')).rejects.toMatchObject({ code: 'ORDER_FINAL' })
  })

  test('one that runs ends the run', async () => {
    const { orders, run } = await market()
    const { id } = await orders.create(order(localId, { task: 'x' }))
    const { signal } = await run('x')
    expect(await orders.cancel(id)).toMatchObject({
      status: 'cancelled',
      cancel_requested: true,
      error: { code: 'ORDER_CANCELLED' },
    })
    expect(signal.aborted).toBe(true)
  })

  test('one that is begun at that instant is aborted too, before its agent runs', async () => {
    const database = openDatabase({ path: ':memory:' })
    const namesOf = () => undefined
    const ledger = createLedger(openRecords(database, { hasChain: false }), { logger: silentLogger, namesOf })
    const [begun, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const begin: typeof ledger.orders.begin = async (...args) => {
      const order = await ledger.orders.begin(...args)
      begun.resolve()
      await answered.promise
      return order
    }
    const { orders } = await market({ database, ledger: { ...ledger, orders: { ...ledger.orders, begin } } })
    const { id } = await orders.create(order(localId, { task: 'x' }))
    await begun.promise
    const canceled = orders.cancel(id)
    await until(async () => (await orders.get(id)).cancel_requested)
    answered.resolve()
    expect(await canceled).toMatchObject({ status: 'cancelled', error: { code: 'ORDER_CANCELLED' } })
  })

  test('one that has its result by then keeps it', async () => {
    let end = (_output: string) => {}
    const { orders } = await market({ runOwn: () => new Promise((resolve) => (end = resolve)) })
    const { id } = await orders.create(order(localId, { task: 'x' }))
    await until(async () => (await orders.get(id)).status === 'executing')
    const canceled = orders.cancel(id)
    await until(async () => (await orders.get(id)).cancel_requested === true)
    end('just in time')
    expect(await canceled).toMatchObject({ status: 'completed', output: 'just in time', cancel_requested: true })
  })
})

describe('D18, D32: canceling an order that was signed for', () => {
  /** A paid agent whose seller takes the payment and says nothing; `later` says what it answers when asked for the result. */
  async function signedFor(
    later: (stream: ScriptedStream) => Promise<void>,
    options: Parameters<typeof market>[0] = {},
  ) {
    let reset = false
    const seller = new ScriptedSeller(async (stream) => {
      if (stream.index > 0) return later(stream)
      await stream.challenge(await stream.next())
      await stream.next()
      stream.raw.addEventListener('close', ({ error }) => {
        reset = error?.name === 'StreamResetError'
      })
    })
    const listing = listingFixture({ id: agentId, price: 10_000n, pay_to: payTo, asset: usdc.address })
    const on = await market({ listings: [listing], openStream: seller.open, ...options })
    const waitForPayment = () => until(() => seller.received.length >= 2)
    return { ...on, seller, waitForPayment, wasReset: () => reset }
  }
  const failed = async (stream: ScriptedStream) => stream.refuse(await stream.next(), 'EXECUTION_FAILED')

  test('resets the seller’s stream, and ends canceled when the seller says that it charges nothing', async () => {
    const { orders, waitForPayment, wasReset, seller } = await signedFor(failed)
    const { id } = await orders.create(order(agentId, { task: 'x' }))
    await waitForPayment()
    expect(await orders.cancel(id)).toMatchObject({
      status: 'cancelled',
      error: { code: 'EXECUTION_FAILED' },
      payment: { amount: '0.01', settlement: 'reserved' },
    })
    expect(wasReset()).toBe(true)
    expect(seller.received.map(({ message }) => ('method' in message ? message.method : 'paid'))).toEqual([
      'execute',
      'paid',
      'result',
    ])
  })

  /** The same seller, and what this node counts of it. */
  async function countedFor() {
    const database = openDatabase({ path: ':memory:' })
    const measures = createMeasures({ store: createMeasureStore(database), clock: systemClock, logger: silentLogger })
    const meters = new Meters()
    const records = openRecords(database, { hasChain: false })
    const ledger = createLedger(records, { logger: silentLogger, namesOf: () => undefined })
    ledger.listen(ledgerMeters(meters, systemClock))
    const on = await signedFor(failed, { database, measures, ledger })
    const counted = () => ({ ...measures.counts(agentId), ended: meters.counts(meterNames.executions) })
    return { ...on, counted }
  }
  const notCounted = {
    ...{ calls: 0, success_rate: null },
    ended: [{ labels: { side: 'ordered', result: 'cancelled' }, value: 1 }],
  }

  test('counts as no failure of the seller', async () => {
    const { orders, waitForPayment, counted } = await countedFor()
    const { id } = await orders.create(order(agentId, { task: 'x' }))
    await waitForPayment()
    expect(await orders.cancel(id)).toMatchObject({ status: 'cancelled', error: { code: 'EXECUTION_FAILED' } })
    expect(counted()).toEqual(notCounted)
  })

  test('ends canceled, and is no failure of the seller, if the caller that waits cancels it', async () => {
    const { orders, execute, waitForPayment, wasReset, counted } = await countedFor()
    const canceling = new AbortController()
    const { signal } = new AbortController()
    const execution = execute({ agentId, input: 'x', signal, cancel: canceling.signal })
    const told = expect(execution).rejects.toMatchObject({ code: 'RESULT_PENDING' })
    await waitForPayment()
    canceling.abort(new MarketError('ORDER_CANCELLED', 'canceled by the caller'))
    await told
    expect(wasReset()).toBe(true)
    const ended = await until(async () =>
      (await orders.list({ limit: 1 })).items.find((one) => one.status !== 'executing'),
    )
    expect(ended).toMatchObject({ status: 'cancelled', cancel_requested: true, error: { code: 'EXECUTION_FAILED' } })
    expect(counted()).toEqual(notCounted)
  })

  test('counts an order that was canceled before it ran', async () => {
    const { orders, counted } = await countedFor()
    const { id } = await orders.create(order(agentId))
    expect(await orders.cancel(id)).toMatchObject({ status: 'cancelled' })
    expect(counted()).toEqual(notCounted)
  })

  test('keeps a result that was paid for', async () => {
    const { orders, waitForPayment } = await signedFor(async (stream) => stream.respond(await stream.next()))
    const { id } = await orders.create(order(agentId, { task: 'x' }))
    await waitForPayment()
    expect(await orders.cancel(id)).toMatchObject({
      status: 'completed',
      output: 'result',
      payment: { settlement: 'pending' },
    })
  })

  test('stays executing while the seller does not say, and is told so', async () => {
    const { orders, waitForPayment } = await signedFor(async () => {
      throw new Error('gone')
    })
    const { id } = await orders.create(order(agentId, { task: 'x' }))
    await waitForPayment()
    expect(await orders.cancel(id)).toMatchObject({ status: 'executing', cancel_requested: true })
    expect(await orders.cancel(id)).toMatchObject({ status: 'executing' })
  })

  test('tells whoever waits for a direct execution', async () => {
    const { orders, execute, waitForPayment } = await signedFor(failed)
    const execution = execute({ agentId, input: 'x', signal: AbortSignal.timeout(5_000) })
    const told = expect(execution).rejects.toMatchObject({ code: 'RESULT_PENDING' })
    await waitForPayment()
    const [{ id } = { id: '' }] = (await orders.list({ limit: 1 })).items
    expect(await orders.cancel(id)).toMatchObject({ status: 'cancelled' })
    await told
  })

  test('T17: what a stopping node lets go of is not reset: it runs on at the seller', async () => {
    const { orders, buyer, waitForPayment, wasReset } = await signedFor(failed)
    const { id } = await orders.create(order(agentId, { task: 'x' }))
    await waitForPayment()
    await stop(buyer)
    expect([(await orders.get(id)).status, wasReset()]).toEqual(['executing', false])
  })

  test('signs nothing once it is called off', async () => {
    let challenge = () => {}
    const held = new Promise<void>((resolve) => (challenge = resolve))
    const seller = new ScriptedSeller(async (stream) => {
      const request = await stream.next()
      await held
      await stream.challenge(request)
    })
    const listing = listingFixture({ id: agentId, price: 10_000n, pay_to: payTo, asset: usdc.address })
    const { orders } = await market({ listings: [listing], openStream: seller.open })
    const { id } = await orders.create(order(agentId, { task: 'x' }))
    await until(() => seller.received.length === 1)
    const canceled = orders.cancel(id)
    challenge()
    const ended = await canceled
    expect(ended.status).toBe('cancelled')
    expect(ended).not.toHaveProperty('payment')
  })
})

describe('T16, T17: over a restart', () => {
  test('what waits waits on, and what ran without a signature runs again', async () => {
    const database = openDatabase({ path: ':memory:' })
    const first = await market({ database })
    const running = await first.orders.create(order(localId, { task: 'runs' }))
    const waiting = await first.orders.create(order())
    const unknown = await first.orders.create(order('later', { task: 'z' }))
    await first.run('runs')
    await stop(first.buyer)
    expect((await first.orders.get(running.id)).status).toBe('executing')

    const second = await market({ database: endProcess(database) })
    ;(await second.run('runs')).end('after all')
    expect(await settled(second, running.id)).toMatchObject({ status: 'completed', output: 'after all' })
    const left = await Promise.all([waiting, unknown].map(({ id }) => second.orders.get(id)))
    expect(left.map(({ status }) => status)).toEqual(['pending', 'pending'])
    second.list(listingFixture({ id: 'later', local: true }))
    ;(await second.run('z')).end('known')
    expect((await settled(second, unknown.id)).status).toBe('completed')
  })

  test('what was to be canceled when the process died is canceled', async () => {
    const database = openDatabase({ path: ':memory:' })
    const first = await market({ database, runOwn: () => new Promise(() => {}) })
    const { id } = await first.orders.create(order(localId, { task: 'stubborn' }))
    await until(async () => (await first.orders.get(id)).status === 'executing')
    void first.orders.cancel(id).catch(() => {})
    await until(async () => (await first.orders.get(id)).cancel_requested)
    await stop(first.buyer)
    const second = await market({ database: endProcess(database) })
    expect(await second.orders.get(id)).toMatchObject({ status: 'cancelled' })
    expect(second.runs).toEqual([])
  })
})

describe('T19: bounds', () => {
  test('of placed orders only so many run at once; the others take their turn', async () => {
    const { orders, runs } = await market()
    const placed = await Promise.all(
      Array.from({ length: 40 }, (_, index) => orders.create(order(localId, { task: `${index}` }))),
    )
    await until(() => runs.length === 32)
    expect((await orders.list({ limit: 100, status: 'pending' })).items).toHaveLength(8)
    for (let done = 0; done < 40; done++) {
      const run = await until(() => runs[done])
      run.end('')
    }
    for (const { id } of placed) expect((await settled({ orders }, id)).status).toBe('completed')
    expect(runs.map(({ input }) => Number(input))).toEqual([...Array(40).keys()])
  })

  test('of open orders there are only so many', async () => {
    const database = openDatabase({ path: ':memory:' })
    const { orders } = await market({ database })
    await database.write(() => {
      const insert = database.prepare(
        `INSERT INTO orders (id, agent_id, price, status, created_at, updated_at) VALUES (?, 'x', 0, 'pending', 0, 0)`,
      )
      for (let count = 0; count < 10_000; count++) insert.run(`filler ${count}`)
    })
    await expect(orders.create(order())).rejects.toMatchObject({ code: 'ORDERS_TOO_MANY' })
    await orders.cancel('filler 0')
    expect((await orders.create(order())).status).toBe('pending')
  })

  test('a task that fits no frame is refused at once', async () => {
    const { orders } = await market()
    await expect(orders.create(order(localId, { task: 'x'.repeat(7_000_000) }))).rejects.toMatchObject({
      code: 'INPUT_TOO_LARGE',
    })
    expect((await orders.list({ limit: 1 })).items).toEqual([])
  })
})

test('D18: whatever is done to orders, each goes only from state to state, and what is final stays', async () => {
  const legal: Record<string, string[]> = {
    pending: ['executing', 'cancelled', 'failed'],
    executing: ['completed', 'failed', 'cancelled'],
  }
  const action = fc.record({
    kind: fc.constantFrom('create', 'create with task', 'execute', 'cancel', 'end', 'fail', 'list agent'),
    which: fc.nat(5),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 30 }), async (actions) => {
      const { orders, runs, list, buyer } = await market({ listings: [listingFixture({ id: localId, local: true })] })
      const seen = new Map<string, string>()
      const look = async () => {
        for (const { id, status, cancel_requested, output } of (await orders.list({ limit: 200 })).items) {
          const before = seen.get(id)
          if (before !== undefined && before !== status) {
            const reachable = [before, ...(legal[before] ?? []), ...(before === 'pending' ? legal.executing! : [])]
            expect(reachable).toContain(status)
          }
          if (status === 'cancelled' && before === 'executing') expect(cancel_requested).toBe(true)
          expect(output !== undefined).toBe(status === 'completed')
          seen.set(id, status)
        }
      }
      for (const { kind, which } of actions) {
        const id = [...seen.keys()][which % Math.max(1, seen.size)] ?? 'none'
        const agentId = which % 2 === 0 ? localId : 'later'
        if (kind === 'create') await orders.create(order(agentId))
        if (kind === 'create with task') await orders.create(order(agentId, { task: `${which}` }))
        if (kind === 'execute') await orders.execute(id, 'x').catch(() => {})
        if (kind === 'cancel') await orders.cancel(id).catch(() => {})
        if (kind === 'end') runs[which]?.end('out')
        if (kind === 'fail') runs[which]?.fail(new Error('no'))
        if (kind === 'list agent') list(listingFixture({ id: 'later', local: true }))
        for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
        await look()
      }
      await stop(buyer)
    }),
    { numRuns: 60 },
  )
})
