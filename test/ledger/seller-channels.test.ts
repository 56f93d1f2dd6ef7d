import { expect, test } from 'vitest'
import { createExchanges } from '../../src/store/exchanges.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createPayments } from '../../src/store/payments.ts'
import { all } from '../../src/store/query.ts'
import { createSellerChannelStore } from '../../src/store/seller-channels.ts'
import { asEnded, onBothEngines } from '../support/ledgers.ts'
import { agentId, payTo, randomHex, usdc } from '../support/payments.ts'
import { callOf, channelOf, channelsSince as now } from '../support/seller-channels.ts'

const HUGE = 2n ** 128n - 1n
const limits = { perPeerMax: 2, max: 3 }
const rows = (database: LedgerDatabase, table: string) => database.query(all(`SELECT * FROM ${table}`))

onBothEngines((open, openTwo, engine) => {
  test('a channel reads back as it was, also with sums of 128 bits', async () => {
    const store = createSellerChannelStore(await open())
    const id = randomHex()
    const channel = channelOf({
      ...{ id, charged: HUGE - 1n, seq: 7, owedSince: now - 5, refund: { nonce: 9n, amount: HUGE } },
      onChain: { balance: HUGE, totalClaimed: 3n, withdrawal: { amount: HUGE, initiatedAt: 9 }, refundNonce: 4n },
      best: { channelId: id, maxClaimableAmount: HUGE, signature: randomHex(65) },
    })
    expect(await store.add(channel, limits)).toBe('added')
    expect(await store.add(channel, limits)).toBe('known')
    expect(await store.take(id)).toEqual({ channel, isOwn: true })
    expect(await store.list(usdc.network)).toEqual([{ channel, isOwn: true }])
    expect(await store.list('eip155:8453')).toEqual([])
    expect(await store.take(randomHex())).toBeUndefined()
  })

  test('channels of one peer and of all are bounded; those that were emptied long ago leave', async () => {
    const [first, second] = (await openTwo()).map((database) => createSellerChannelStore(database))
    const added = await Promise.all([first!, second!, first!].map((store) => store.add(channelOf(), limits)))
    expect(added.toSorted()).toEqual(['added', 'added', 'full'])
    expect(await first!.add(channelOf({ peerId: 'other' }), limits)).toBe('added')
    expect(await first!.add(channelOf({ peerId: 'third' }), limits)).toBe('full')
    const { channel } = (await first!.list(usdc.network))[0]!
    const emptied = { ...channel, onChain: { ...channel.onChain, balance: 5n, totalClaimed: 5n }, charged: 5n }
    await Promise.all([first!.save(emptied, 0), second!.save(emptied, 0)])
    const later = now + 31 * 24 * 60 * 60 * 1000
    expect(await first!.add(channelOf({ peerId: 'third', createdAt: later, usedAt: later }), limits)).toBe('added')
  })

  test('a buyer that comes and goes is not kept out by the channels that it has left', async () => {
    const [store] = (await openTwo()).map((database) => createSellerChannelStore(database))
    const hour = 60 * 60 * 1000
    const refunds = [{ nonce: 1n, amount: 5n }, undefined, { nonce: 0n, amount: 5n }]
    for (const [day, refund] of refunds.entries()) {
      const at = now + day * 25 * hour
      const channel = channelOf({ createdAt: at, usedAt: at })
      expect(await store!.add(channel, { perPeerMax: 2, max: 100 })).toBe('added')
      const onChain = { ...channel.onChain, balance: 5n, totalClaimed: 5n, refundNonce: 1n }
      await store!.save({ ...channel, onChain, charged: 5n, ...(refund && { refund }) }, 0)
    }
    // The first has a refund that anyone can still send, so what is known of it is kept. The last was used just now.
    const at = now + 50 * hour + 1
    const next = channelOf({ createdAt: at, usedAt: at })
    expect(await store!.add(next, { perPeerMax: 2, max: 100 })).toBe('full')
    expect(await store!.add({ ...next, createdAt: at + 2 * hour }, { perPeerMax: 2, max: 100 })).toBe('added')
    const kept = (await store!.list(usdc.network)).map(({ channel }) => channel.refund?.nonce)
    expect(kept).toEqual([1n, undefined])
  })

  test('channels that owe nothing do not fill the ledger for good, whatever lies in them', async () => {
    const store = createSellerChannelStore(await open())
    const few = { perPeerMax: 2, max: 3 }
    const put = async (peerId: string, charged: bigint) => {
      const channel = channelOf({ peerId })
      expect(await store.add(channel, few)).toBe('added')
      await store.save({ ...channel, onChain: { ...channel.onChain, totalClaimed: 5n }, charged }, 0)
      return channel.id
    }
    await put('a', 5n)
    const owes = await put('b', 6n)
    await put('c', 5n)
    const later = now + 60 * 60 * 1000 + 1
    expect(await store.add(channelOf({ peerId: 'd', createdAt: now + 1 }), few)).toBe('full')
    expect(await store.add(channelOf({ peerId: 'd', createdAt: later, usedAt: later }), few)).toBe('added')
    expect((await store.list(usdc.network)).map(({ channel }) => channel.id)).toContain(owes)
    // A voucher above what was charged may be on the chain. With the row it would be forgotten who may use it.
    const signed = channelOf({ peerId: 'e' })
    const best = { channelId: signed.id, maxClaimableAmount: 9_000n, signature: randomHex(65) } as const
    await store.add(signed, { perPeerMax: 2, max: 9 })
    await store.save({ ...signed, best }, 0)
    expect(await store.add(channelOf({ peerId: 'e', createdAt: later }), { perPeerMax: 1, max: 9 })).toBe('full')
    await store.save({ ...signed, best, onChain: { ...signed.onChain, balance: 9_999n } }, 0)
    expect(await store.add(channelOf({ peerId: 'e', createdAt: later }), { perPeerMax: 1, max: 9 })).toBe('added')
    // One peer makes room only among its own.
    expect(await store.add(channelOf({ peerId: 'd', createdAt: later, usedAt: later }), { ...few, max: 9 })).toBe(
      'added',
    )
    expect(await store.add(channelOf({ peerId: 'd', createdAt: later, usedAt: later }), { ...few, max: 9 })).toBe(
      'full',
    )
    expect(await store.list(usdc.network)).toHaveLength(4)
  })

  test('what has ended is stored with its channel: calls with charges, and calls that failed', async () => {
    const database = await open()
    const [store, payments] = [createSellerChannelStore(database), createPayments(database)]
    const channel = channelOf()
    await store.add(channel, limits)
    const [sold, failed, last] = [callOf(1), callOf(undefined), callOf(2)]
    const charged = { ...channel, charged: 2_000n, seq: 2, owedSince: now, usedAt: now + 1 }
    expect(await store.charge(charged, 0, { calls: [sold, failed, last], now: now + 1 })).toBe(true)
    expect(await store.take(channel.id)).toEqual({ channel: charged, isOwn: true })
    expect(await payments.get(sold.id)).toMatchObject({
      ...{ state: 'settled', peerId: 'buyer', agentId, ran: true, txHash: undefined, updatedAt: now + 1 },
      channel: { id: channel.id, charge: { amount: 1_000n, total: 1_000n, seq: 1 } },
      requirements: { amount: 1_000n, network: usdc.network, payTo },
      signed: { authorization: { from: channel.config.payer } },
    })
    expect(await payments.get(failed.id)).toMatchObject({
      ...{ state: 'voided', error: 'no', requirements: { amount: 0n } },
      channel: { id: channel.id, charge: undefined },
    })
    expect(await payments.get(last.id)).toMatchObject({ channel: { charge: { total: 2_000n, seq: 2 } } })
    const exchanges = createExchanges(database)
    expect(await exchanges.paidOutput(sold.id)).toBe(sold.exchange.output)
    expect(await exchanges.paidOutput(failed.id)).toBeUndefined()
    expect(await payments.exposed(channel.config.payer)).toMatchObject({ payer: 0n, payments: 0 })
    expect(await payments.takeOver('ended', now + 2)).toBe(0)
  })

  test('calls are unique by their id alone: a number of a charge may come again, and none has a nonce', async () => {
    const database = await open()
    const store = createSellerChannelStore(database)
    const channel = channelOf()
    await store.add(channel, limits)
    const last = { ...channel, charged: 1_000n, seq: 1 }
    expect(await store.charge(last, 0, { calls: [callOf(1), callOf(undefined)], now })).toBe(true)
    // A row that was emptied and purged begins to count again.
    expect(await store.save({ ...last, seq: 0 }, 1)).toBe(true)
    expect(await store.charge(last, 0, { calls: [callOf(1)], now })).toBe(true)
    const huge = { ...last, seq: 2 ** 48 + 1 }
    expect(await store.charge(huge, 1, { calls: [callOf(2 ** 48 + 1)], now })).toBe(true)
    const stored = (await rows(database, 'payments')) as { exchange_id: number; authorization_nonce: Uint8Array }[]
    expect(stored.map(({ authorization_nonce: nonce }) => nonce.length)).toEqual([0, 0, 0, 0])
    const exchanges = (await rows(database, 'exchanges')) as { id: number }[]
    expect(stored.map(({ exchange_id: id }) => id)).toEqual(exchanges.map(({ id }) => id))
  })

  test('a channel goes over to another peer with what is stored of it, and only where it is stored', async () => {
    const store = createSellerChannelStore(await open())
    const channel = channelOf()
    await store.add(channel, limits)
    const moved = { ...channel, peerId: 'other', charged: 1_000n, seq: 1 }
    expect(await store.save(moved, 5)).toBe(false)
    expect(await store.get(channel.id)).toMatchObject({ peerId: channel.peerId, seq: 0 })
    expect(await store.save(moved, 0)).toBe(true)
    expect(await store.get(channel.id)).toMatchObject({ peerId: 'other', seq: 1 })
  })

  test('a call whose number is used already is not stored, nor is what ended with it', async () => {
    const database = await open()
    const store = createSellerChannelStore(database)
    const channel = channelOf()
    await store.add(channel, limits)
    const call = callOf(1)
    const charged = { ...channel, charged: 1_000n, seq: 1 }
    expect(await store.charge(charged, 0, { calls: [call], now })).toBe(true)
    expect(await store.charge(charged, 0, { calls: [callOf(1)], now })).toBe(false)
    const again = store.charge({ ...charged, charged: 2_000n, seq: 2 }, 1, {
      calls: [{ ...call, charge: undefined }],
      now,
    })
    await expect(again).rejects.toThrow()
    expect(await store.take(channel.id)).toMatchObject({ channel: { charged: 1_000n, seq: 1 } })
    expect(await rows(database, 'payments')).toHaveLength(1)
    expect(await rows(database, 'exchanges')).toHaveLength(1)
  })

  test('what a process left behind has a new owner, and the old one changes nothing more', async () => {
    const database = await open()
    const [old, store] = [asEnded(database), database].map((by) => createSellerChannelStore(by))
    const channel = channelOf()
    await old!.add(channel, limits)
    expect(await store!.save(channel, 0)).toBe(false)
    expect(await store!.take(channel.id)).toEqual({ channel, isOwn: true })
    const charged = { ...channel, charged: 1_000n, seq: 1 }
    expect(await old!.save(charged, 0)).toBe(false)
    expect(await old!.charge(charged, 0, { calls: [callOf(1)], now })).toBe(false)
    expect(await rows(database, 'payments')).toEqual([])
    expect(await rows(database, 'exchanges')).toEqual([])
  })

  test('one process has a channel until it gives it up', async () => {
    const [one, other] = (await openTwo()).map((database) => createSellerChannelStore(database))
    const channel = channelOf()
    await one!.add(channel, limits)
    const isShared = engine === 'PostgreSQL'
    expect(await other!.take(channel.id)).toEqual({ channel, isOwn: !isShared })
    if (isShared) expect(await other!.save(channel, 0)).toBe(false)
    await other!.ask(channel.id)
    if (isShared) await other!.giveUp(channel.id)
    expect(await one!.take(channel.id)).toEqual({ channel, isOwn: true })
    await one!.giveUp(channel.id)
    expect(await other!.take(channel.id)).toEqual({ channel, isOwn: true })
  })
})
