import { expect, test } from 'vitest'
import { Feed } from '../lib/feed.ts'
import { Meters } from '../lib/meters.ts'
import type { NodeEvents } from '../schema/events.ts'
import { openDatabase } from '../store/database.ts'
import { createPurchases } from '../store/purchases.ts'
import { publishedPurchases } from './ledger-events.ts'
import { meteredPurchases, meterNames } from './metered.ts'

test.each(['setTxHash', 'resolve', 'giveBack'] as const)('T20: whoever follows payments hears of %s', async (name) => {
  const stored = { ...createPurchases(openDatabase({ path: ':memory:' })), [name]: async () => 'order' }
  const feed = new Feed<NodeEvents>({ life: 'x' })
  const meters = new Meters()
  const purchases = publishedPurchases(meteredPurchases(stored, meters), feed, () => undefined)
  const before = feed.last
  if (name === 'setTxHash') await purchases.setTxHash('0x1', '0x2', 0)
  else if (name === 'resolve') await purchases.resolve('0x1', 'released', undefined, 0)
  else await purchases.giveBack('0x1', 0)
  expect(feed.last).not.toBe(before)
  if (name === 'setTxHash') return
  expect(meters.counts(meterNames.payments)).toEqual([{ labels: { direction: 'out', state: 'released' }, value: 1 }])
})
