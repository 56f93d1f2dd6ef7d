import { expect, test } from 'vitest'
import { payTo, usdc } from '../../test/support/payments.ts'
import { systemClock } from '../lib/clock.ts'
import { openDatabase } from '../store/database.ts'
import type { ImportStore } from '../store/imports.ts'
import { createImportStore } from '../store/imports.ts'
import { createImports } from './imports.ts'

const peer = '/ip4/127.0.0.1/tcp/4001/p2p/12D3KooWH3uVF6wv47WnArKHk5p6cvgCJEb74UTmxztmQDc298L3'
const request = (agent_id: string) => ({ peer, agent_id, price: 10_000n, pay_to: payTo })
const never = () => Promise.reject(new Error('nobody is asked'))

function setup(store: ImportStore = createImportStore(openDatabase({ path: ':memory:' }))) {
  const open = () => createImports({ clock: systemClock, store, network: usdc.network, sellerId: 'us' })
  return { store, open, imports: open() }
}

test('T7 a removed import stays on disk, not in memory, and keeps the name by which its seller knows it', async () => {
  const stored = createImportStore(openDatabase({ path: ':memory:' }))
  let read: ReturnType<ImportStore['active']> = []
  const { imports, open } = setup({
    ...stored,
    active() {
      read = stored.active()
      return read
    },
  })
  const kept = await imports.add(request('kept'), usdc.address, never)
  const { id } = await imports.add(request('gone'), usdc.address, never)
  await imports.remove(id)
  for (const life of [imports, open()]) {
    expect([life.resourceOf(id), life.resourceOf(kept.id), life.resourceOf('another')]).toEqual([
      'gone',
      'kept',
      undefined,
    ])
    expect(life.all().map((one) => one.id)).toEqual([kept.id])
  }
  expect(read).toHaveLength(1)
})

test('T7 imports never exceed the limit, even if many are added at once', async () => {
  const { imports } = setup()
  const adding = Array.from({ length: 1_010 }, (_, n) => imports.add(request(`agent ${n}`), usdc.address, never))
  const done = await Promise.allSettled(adding)
  expect(done.filter(({ status }) => status === 'fulfilled')).toHaveLength(1_000)
  expect(imports.all()).toHaveLength(1_000)
})
