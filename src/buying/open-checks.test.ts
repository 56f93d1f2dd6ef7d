import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import type { OpenPurchase } from '../store/open-purchases.ts'
import { EXPIRY_MARGIN_MS, OpenChecks } from './open-checks.ts'

const NOW = Date.parse('2026-11-23T10:00:00Z')
const WINDOW_SECONDS = 3600
const never = new AbortController().signal

/** Checks of one purchase, which stays open. */
function openChecks() {
  const clock = new HandClock(NOW)
  const validBeforeSeconds = NOW / 1000 + WINDOW_SECONDS
  const purchase: OpenPurchase = {
    ...{ list: 'reserved', orderId: 'order', paymentId: '0x1', sellerId: 'seller' },
    ...{ validBeforeSeconds, position: { at: NOW, no: 1 } },
  }
  const purchases = { open: async (list: string) => (list === 'reserved' ? [purchase] : []) }
  const checks = new OpenChecks({ clock, purchases, active: new Set(), network: 'eip155:84532', chain: {} })
  /** Waits for the next check, makes it, and returns the wait in ms. */
  const nextCheck = async () => {
    const wait = checks.waitFor([purchase], Number.POSITIVE_INFINITY)
    clock.advance(wait)
    const { due } = await checks.next(never)
    expect(due).toEqual([purchase])
    return wait
  }
  return { clock, nextCheck, overAt: validBeforeSeconds * 1000 + EXPIRY_MARGIN_MS }
}

test('the pause doubles after each check, up to 10 minutes', async () => {
  const { nextCheck } = openChecks()
  const waits: number[] = []
  for (let i = 0; i < 12; i += 1) waits.push((await nextCheck()) / 1000)
  expect(waits).toEqual([0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600])
})

test('the pause is short again after the payment window, when the chain may not know yet that it has ended', async () => {
  const { clock, nextCheck, overAt } = openChecks()
  while (clock.now() <= overAt) await nextCheck()
  expect(clock.now()).toBe(overAt + 1)
  expect([await nextCheck(), await nextCheck(), await nextCheck()]).toEqual([2000, 4000, 8000])
})
