import { expect, test } from 'vitest'
import { PaymentChecks } from './payment-checks.ts'

const PLACES = 16

/** Takes all places for sites that have not paid. */
async function full(checks: PaymentChecks) {
  return Promise.all(Array.from({ length: PLACES }, () => checks.turn('full')))
}

function isDone(promise: Promise<unknown>): Promise<boolean> {
  return Promise.race([promise.then(() => true), new Promise<boolean>((resolve) => setImmediate(resolve, false))])
}

test('T36 a site that has paid goes at once, until a payment of it buys nothing', async () => {
  const checks = new PaymentChecks()
  checks.paid('paid')
  const [first] = await full(checks)
  const waits = checks.turn('new')
  expect(await isDone(waits)).toBe(false)
  expect(await isDone(checks.turn('paid'))).toBe(true)
  checks.blame('paid')
  const later = checks.turn('paid')
  first![Symbol.dispose]()
  expect(await isDone(waits)).toBe(true)
  expect(await isDone(later)).toBe(false)
  ;(await waits)[Symbol.dispose]()
  expect(await isDone(later)).toBe(true)
})

test('T36 sites that have not paid take turns: much of one delays another by one check', async () => {
  const checks = new PaymentChecks()
  const places = await full(checks)
  const order: string[] = []
  const wait = (site: string) => checks.turn(site).then(() => void order.push(site))
  const waiting = ['much', 'much', 'much', 'new'].map(wait)
  for (const place of places) place[Symbol.dispose]()
  await Promise.all(waiting)
  expect(order).toEqual(['much', 'new', 'much', 'much'])
})
