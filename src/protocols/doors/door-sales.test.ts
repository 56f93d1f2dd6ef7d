import { afterEach, expect, test } from 'vitest'
import { notedCheck } from '../../../test/support/noted-check.ts'
import { agentId, signed } from '../../../test/support/payments.ts'
import { TestSeller } from '../../../test/support/x402-seller.ts'
import { Hold } from '../../lib/hold.ts'
import { DoorSales } from './door-sales.ts'
import type { PayerLimits } from './payer-limits.ts'

let seller: TestSeller
afterEach(() => seller.stop())

const REPLAYS = 300

test('T42 who has read an old payment on the chain takes no place of its payer with it', async () => {
  seller = await new TestSeller().start()
  const sales = new DoorSales(seller.deps)
  const { envelope } = signed(seller.clock.now())
  const sell = (payment = envelope, task = 'work') =>
    sales.sell({ door: 'http', agentId, input: task, payment, boundTo: Buffer.from(task) })
  expect(await sell()).toMatchObject({ kind: 'result', output: 're: work' })
  for (let replay = 0; replay < REPLAYS; replay++) {
    expect(await sell(envelope, 'for nothing')).toMatchObject({ kind: 'used' })
  }
  expect(await sell()).toMatchObject({ kind: 'result', output: 're: work' })
  expect(await sell(signed(seller.clock.now()).envelope)).toMatchObject({ kind: 'result' })
  expect(seller.runs).toHaveLength(2)
})

test('T42 who sends an old payment with the very request that it paid for takes no place of its payer', async () => {
  seller = await new TestSeller().start()
  const sales = new DoorSales(seller.deps)
  const sell = ({ envelope }: ReturnType<typeof signed>) =>
    sales.sell({ door: 'http', agentId, input: 'ping', payment: envelope, boundTo: Buffer.from('ping') })
  const old = signed(seller.clock.now())
  for (let replay = 0; replay < REPLAYS; replay++) {
    expect(['result', 'limited']).toContain((await sell(old)).kind)
  }
  expect(await sell(old)).toMatchObject({ kind: 'limited', settlement: expect.stringMatching(/settled|unknown/) })
  expect(await sell(signed(seller.clock.now()))).toMatchObject({ kind: 'result' })
  expect(seller.runs).toHaveLength(2)
})

test('T42 a payment that was never made here, and is over, takes no place of its payer', async () => {
  seller = await new TestSeller().start()
  const sales = new DoorSales(seller.deps)
  const sell = ({ envelope }: ReturnType<typeof signed>, task: string) =>
    sales.sell({ door: 'http', agentId, input: task, payment: envelope, boundTo: Buffer.from(task) })
  const old = signed(seller.clock.now())
  seller.clock.advance(3_600_000)
  for (let replay = 0; replay < REPLAYS; replay++)
    expect(await sell(old, `${replay}`)).toMatchObject({ kind: 'refused' })
  expect(await sell(signed(seller.clock.now()), 'work')).toMatchObject({ kind: 'result' })
})

test('T31 a payment has its turn until it is claimed or refused, and not while its agent runs', async () => {
  seller = await new TestSeller().start()
  const sales = new DoorSales(seller.deps)
  let checking = 0
  const noted = notedCheck()
  const turn = async () => {
    checking++
    return new Hold(() => void checking--)
  }
  const check = { ...noted, turn }
  const atRun: number[] = []
  seller.work = async () => {
    atRun.push(checking)
    return 'done'
  }
  const request = { door: 'http' as const, agentId, input: 'work', boundTo: Buffer.from('work'), check }
  const payment = signed(seller.clock.now()).envelope
  const both = [sales.sell({ ...request, payment }), sales.sell({ ...request, payment })]
  expect(await Promise.all(both)).toMatchObject([{ kind: 'result' }, { kind: 'result' }])
  // A payment that is sent again says nothing new of its sender.
  expect(await sales.sell({ ...request, payment })).toMatchObject({ kind: 'result' })
  expect(await sales.sell({ ...request, payment, boundTo: Buffer.from('other') })).toMatchObject({ kind: 'used' })
  const late = signed(seller.clock.now()).envelope
  expect(await sales.sell({ ...request, payment: late, mismatch: 'other terms' })).toMatchObject({ kind: 'refused' })
  expect({ atRun, checking }).toEqual({ atRun: [0], checking: 0 })
  expect(noted.heard).toEqual(['paid', 'refused'])
})

test('each sale has a caller of its own, and their names rise with time', async () => {
  seller = await new TestSeller().start()
  const sales = new DoorSales(seller.deps)
  for (let sale = 0; sale < 10; sale++) {
    const { envelope } = signed(seller.clock.now())
    const sold = await sales.sell({ door: 'http', agentId, input: 'work', payment: envelope, boundTo: Buffer.from('') })
    expect(sold).toMatchObject({ kind: 'result' })
    seller.clock.advance(1)
  }
  const callers = seller.runs.map(({ callerId }) => callerId)
  expect(new Set(callers).size).toBe(10)
  expect(callers.every((caller) => caller.startsWith('http:'))).toBe(true)
  expect(callers).toEqual(callers.toSorted())
})

test('D45 who asks again for work that was paid for, and must wait, is told that it was paid for', async () => {
  seller = await new TestSeller().start()
  const sales = new DoorSales(seller.deps)
  seller.work = async () => {
    throw new Error('fails each time')
  }
  const { envelope } = signed(seller.clock.now())
  const request = { door: 'http' as const, agentId, input: 'work', payment: envelope, boundTo: Buffer.from('') }
  const sell = () => sales.sell({ ...request, isUpfront: true })
  for (let run = 0; run < 5; run++) expect(await sell()).toMatchObject({ kind: 'failed', settlement: 'settled' })
  expect(await sell()).toMatchObject({ kind: 'busy', settlement: 'settled' })
  expect(seller.runs).toHaveLength(5)
})

test('who asks too often for work that was paid for is told that it was paid for', async () => {
  seller = await new TestSeller().start()
  const payers = { enter: (): string | Disposable => new Hold(() => {}) }
  const limits = payers as unknown as PayerLimits
  const sales = new DoorSales(seller.deps, limits, limits)
  const { envelope } = signed(seller.clock.now())
  const request = { door: 'http' as const, agentId, input: 'work', payment: envelope, boundTo: Buffer.from('') }
  expect(await sales.sell(request)).toMatchObject({ kind: 'result' })
  payers.enter = () => 'too often'
  expect(await sales.sell(request)).toMatchObject({
    kind: 'limited',
    settlement: expect.stringMatching(/settled|unknown/),
  })
  const another = { ...request, payment: signed(seller.clock.now()).envelope }
  expect(await sales.sell(another)).toMatchObject({ kind: 'limited', settlement: 'none' })
})
