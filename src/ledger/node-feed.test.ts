import { expect, test } from 'vitest'
import { statusFixture } from '../../test/support/fake-api.ts'
import { Feed } from '../lib/feed.ts'
import { silentLogger } from '../lib/logger.ts'
import type { ListingListener } from '../listings/replica-state.ts'
import type { NodeEvents } from '../schema/events.ts'
import { nodeFeed } from './node-feed.ts'

test('a listing is told as new, changed or gone; a tombstone of what nobody saw is not', async () => {
  const feed = new Feed<NodeEvents>({ life: 'x' })
  let tell: ListingListener = () => {}
  const onChange = (listener: ListingListener) => {
    tell = listener
    return () => {}
  }
  const service = nodeFeed({ feed, replica: { onChange }, logger: silentLogger, status: async () => statusFixture })
  await service.start()
  const events = feed.subscribe({ types: ['listing'] })
  const record = { id: 'a', name: 'A', seller_id: 's', state: 'active' } as Parameters<ListingListener>[0]
  tell(record, false)
  tell(record, true)
  tell({ ...record, state: 'delisted' }, true)
  tell({ ...record, id: 'b', state: 'delisted' }, false)
  feed.close()
  const told = await Array.fromAsync(events, async (event) =>
    event.type === 'listing' ? (await event.read())?.change : event.type,
  )
  expect(told).toEqual(['listed', 'updated', 'delisted'])
  await service.stop()
})
