import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { endProcess } from '../../test/support/end-process.ts'
import { listingFixture } from '../../test/support/fake-api.ts'
import { fakeMarket, heldApproval } from '../../test/support/fake-market.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { until } from '../../test/support/until.ts'
import { PeerError } from '../protocols/peer-error.ts'
import { openDatabase } from '../store/database.ts'
import { RUN_TIME_APART_MS } from '../store/run-time.ts'

const own = listingFixture({ id: 'own', local: true, price: 0n, price_atomic: '0' })
const paid = listingFixture({ id: 'paid', price: 50_000n, price_atomic: '50000' })
const here = new AbortController().signal
const request = (more: object = {}) => ({ agentId: 'own', input: 'hello', signal: here, idempotencyKey: 'k', ...more })

test('D38 an execution that is asked for again is answered from the ledger, for 24 hours', async () => {
  const clock = new HandClock()
  let runs = 0
  const runOwn = async () => `run ${++runs}`
  const market = await fakeMarket(() => [own], { clock, runOwn })
  const first = await market.execute(request())
  clock.advance(24 * 60 * 60 * 1000 - 1)
  expect(await market.execute(request())).toEqual(first)
  await expect(market.execute(request({ input: 'other' }))).rejects.toMatchObject({ code: 'IDEMPOTENCY_CONFLICT' })
  clock.advance(1 + RUN_TIME_APART_MS)
  expect(await market.execute(request())).toMatchObject({ output: 'run 2' })
})

test('D38, T25 a key is its principal’s: another’s request with the same key is another request', async () => {
  let runs = 0
  const market = await fakeMarket(() => [own], { runOwn: async () => `run ${++runs}` })
  const ask = (tokenId: string | undefined, input = 'hello') =>
    market.execute(request({ input, caller: { scope: 'admin', tokenId } }))
  expect(await ask('a')).toMatchObject({ output: 'run 1' })
  expect(await ask('b', 'other')).toMatchObject({ output: 'run 2' })
  expect(await ask(undefined)).toMatchObject({ output: 'run 3' })
  expect([(await ask('a')).output, (await ask('b', 'other')).output]).toEqual(['run 1', 'run 2'])
})

test('D38 a failure is answered again as it was, and nothing runs', async () => {
  let runs = 0
  const runOwn = async () => {
    runs++
    throw new Error('broken')
  }
  const market = await fakeMarket(() => [own], { runOwn })
  const failure = await market.execute(request()).catch((error: { code: string }) => error.code)
  await expect(market.execute(request())).rejects.toMatchObject({ code: failure, orderId: expect.any(String) })
  expect(runs).toBe(1)
})

test('D38 a failure that may pass says, when it is asked for again, that a new key tries again', async () => {
  let runs = 0
  const runOwn = async () => {
    if (++runs === 1) throw Object.assign(new PeerError('OVERLOADED', 'no free slot'), { retryable: true })
    return `run ${runs}`
  }
  const market = await fakeMarket(() => [own], { runOwn })
  await expect(market.execute(request())).rejects.toThrow(/^no free slot$/)
  const again = { code: 'OVERLOADED', message: expect.stringMatching(/^no free slot; .* new idempotency key/) }
  await expect(market.execute(request())).rejects.toMatchObject(again)
  expect(await market.execute(request({ idempotencyKey: 'new' }))).toMatchObject({ output: 'run 2' })
})

test('D38 a caller that leaves before anything is signed cancels, and the same request then runs', async () => {
  let runs = 0
  const runOwn = (_id: string, { signal, input }: { signal: AbortSignal; input: string }) =>
    ++runs > 1
      ? Promise.resolve(input)
      : new Promise<string>((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))))
  const market = await fakeMarket(() => [own], { runOwn })
  const leaving = new AbortController()
  const left = market.execute(request({ signal: leaving.signal })).catch((error: { code: string }) => error.code)
  await until(() => runs === 1)
  leaving.abort()
  expect(await left).toBe('ORDER_CANCELLED')
  expect(await market.execute(request())).toMatchObject({ output: 'hello' })
  expect((await market.orders.list({ limit: 10, idempotencyKey: 'k' })).items).toMatchObject([{ status: 'completed' }])
})

test('D38 one of two callers that wait may leave', async () => {
  const gate = Promise.withResolvers<string>()
  let aborted = false
  const runOwn = (_id: string, { signal }: { signal: AbortSignal }) => {
    signal.addEventListener('abort', () => (aborted = true))
    return gate.promise
  }
  const market = await fakeMarket(() => [own], { runOwn })
  const leaving = new AbortController()
  const first = market.execute(request({ signal: leaving.signal }))
  const second = market.execute(request())
  await until(async () => (await market.orders.list({ limit: 1 })).items[0]?.status === 'executing')
  leaving.abort()
  gate.resolve('done')
  expect(await second).toEqual(await first)
  expect(aborted).toBe(false)
})

test('D38 two processes that get the same request at the same instant run it once', async () => {
  const database = openDatabase({ path: ':memory:' })
  let runs = 0
  const runOwn = async () => `run ${++runs}`
  const markets = [
    await fakeMarket(() => [own], { database, runOwn }),
    await fakeMarket(() => [own], { database, runOwn }),
  ]
  for (let round = 1; round <= 5; round += 1) {
    const asked = request({ idempotencyKey: `k${round}` })
    const outcomes = await Promise.allSettled(markets.map((market) => market.execute(asked)))
    expect([runs, outcomes.filter(({ status }) => status === 'fulfilled').length > 0]).toEqual([round, true])
    // The process that did not run it may be asked again.
    const again = await Promise.all(markets.map((market) => market.execute(asked)))
    expect(again.map(({ output }) => output)).toEqual([`run ${round}`, `run ${round}`])
  }
  expect((await markets[0]!.orders.list({ limit: 10 })).items).toHaveLength(5)
})

test('D38 an execution that waits for approval is asked for once, and its key names that order', async () => {
  const market = await fakeMarket(() => [paid], { rules: { autoApproveBelowAtomic: 10_000n } })
  const asked = request({ agentId: 'paid' })
  const refusals = await Promise.all([1, 2].map(() => market.execute(asked).catch((error: object) => error)))
  expect(refusals[0]).toMatchObject({ code: 'APPROVAL_REQUIRED', orderId: expect.any(String) })
  expect(refusals[1]).toMatchObject({ orderId: (refusals[0] as { orderId: string }).orderId })
  expect(await market.approvals.list('pending')).toHaveLength(1)
  const other = await heldApproval(market, paid)
  expect((await market.approvals.get(other)).status).toBe('pending')
  await market.approvals.decide((await market.approvals.list('pending')).at(-1)!.id, 'denied')
  await expect(market.execute(asked)).rejects.toMatchObject({ code: 'APPROVAL_DENIED' })
})

test('D38 after the end of the process an order nobody waits for any more ends unpaid, and its request may be sent again', async () => {
  const database = openDatabase({ path: ':memory:' })
  const runOwn = () => new Promise<string>(() => {})
  const first = await fakeMarket(() => [own], { database, runOwn })
  void first.execute(request()).catch(() => {})
  await until(async () => (await first.orders.list({ limit: 1 })).items[0]?.status === 'executing')
  const second = await fakeMarket(() => [own], { database: endProcess(database) })
  const [order] = (await second.orders.list({ limit: 1 })).items
  expect(order).toMatchObject({ status: 'failed', error: { code: 'ORDER_CANCELLED' } })
  expect(await second.execute(request())).toMatchObject({ output: 'HELLO' })
})

test('T19 a token may have 1,000 orders open, and the others go on', async () => {
  const market = await fakeMarket(() => [])
  const order = (tokenId: string | undefined) =>
    market.orders.create({ agentId: randomUUID(), price: 1n, caller: { scope: 'execute', tokenId } })
  await Promise.all(Array.from({ length: 1_000 }, () => order('greedy')))
  await expect(order('greedy')).rejects.toMatchObject({ code: 'ORDERS_TOO_MANY' })
  expect(await order('modest')).toMatchObject({ status: 'pending' })
  expect(await order(undefined)).toMatchObject({ status: 'pending' })
})

const DAY_MS = 24 * 60 * 60 * 1000

test('D38 T16 a clock that is set forward drops no key early, one that is set back keeps none for longer', async () => {
  const clock = new HandClock()
  let runs = 0
  const market = await fakeMarket(() => [own], { clock, runOwn: async () => `run ${++runs}` })
  const first = await market.execute(request())
  clock.jump(30 * DAY_MS)
  await market.keys.purge()
  expect(await market.execute(request())).toEqual(first)
  clock.jump(-60 * DAY_MS)
  expect(await market.execute(request())).toEqual(first)
  clock.advance(DAY_MS + RUN_TIME_APART_MS)
  expect(await market.execute(request())).toMatchObject({ output: 'run 2' })
  await market.keys.purge()
  expect(await market.execute(request())).toMatchObject({ output: 'run 2' })
})

test('D38 T16 a clock that is set while the node is down drops no key: what counts is how long it has run', async () => {
  const database = openDatabase({ path: ':memory:' })
  const start = async (clock: HandClock) => fakeMarket(() => [own], { clock, database, runOwn: async () => 'again' })
  const clock = new HandClock()
  const first = await fakeMarket(() => [own], { clock, database, runOwn: async () => 'first' })
  expect(await first.execute(request())).toMatchObject({ output: 'first' })
  clock.advance(DAY_MS / 2)
  await first.keys.purge()
  const later = new HandClock(clock.now() + 30 * DAY_MS)
  const second = await start(later)
  await second.keys.purge()
  expect(await second.execute(request())).toMatchObject({ output: 'first' })
  later.advance(DAY_MS / 2 + RUN_TIME_APART_MS)
  expect(await second.execute(request())).toMatchObject({ output: 'again' })
})
