import { beforeEach, describe, expect, test } from 'vitest'
import { assets } from '../../src/payments/assets.ts'
import { createWallet } from '../../src/payments/wallet.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { createExchanges } from '../../src/store/exchanges.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createPayments, type PaymentState, type Payments } from '../../src/store/payments.ts'
import { asEnded, onBothEngines } from '../support/ledgers.ts'
import { claim, exchangeOf, randomHex, requirements, testWallet } from '../support/payments.ts'

const now = Date.UTC(2026, 0, 1)
let database: LedgerDatabase
let payments: Payments

onBothEngines((open, openTwo) => {
  beforeEach(async () => {
    database = await open()
    payments = createPayments(database)
  })

  test('a claimed payment reads back as it was', async () => {
    const payment = claim(now, { challengeNonce: randomHex(), task: 'task' })
    expect(await payments.claim(payment, now)).toBe(true)
    expect(await payments.get(payment.id)).toEqual({
      ...payment,
      state: 'authorized',
      door: 'libp2p',
      ran: false,
      attempts: 0,
      nextAttemptAt: undefined,
      unclear: false,
      blamed: false,
      txHash: undefined,
      error: undefined,
      createdAt: now,
      updatedAt: now,
    })
    expect((await payments.get(payment.id.toUpperCase().replace('0X', '0x') as Hex))?.id).toBe(payment.id)
    expect(await payments.challengeConsumed(payment.challengeNonce!)).toBe(true)
    expect(await payments.challengeConsumed(randomHex())).toBe(false)
  })

  describe('T5: the replay key is (network, asset, from, nonce)', () => {
    const nonce = randomHex()
    const first = claim(now, { authorizationNonce: nonce })
    beforeEach(() => payments.claim(first, now))

    test.each([
      ['the same payment again', first],
      ['under another challenge', { ...first, challengeNonce: randomHex() }],
      [
        'from another peer and for another agent',
        { ...first, peerId: 'mallory', agentId: 'other', correlationId: 'two' },
      ],
      ['over another amount', claim(now, { authorizationNonce: nonce, requirements: requirements({ amount: 1n }) })],
      ['with another window', claim(now + 60_000, { authorizationNonce: nonce })],
      ['in other letters', claim(now, { authorizationNonce: nonce.toUpperCase().replace('0X', '0x') as Hex })],
    ])('refuses %s', async (_what, payment) => {
      expect(await payments.claim(payment, now)).toBe(false)
      expect(await payments.counts()).toEqual({ owed: 0, unsettled: 0 })
      expect((await payments.get(first.id))?.peerId).toBe('buyer')
    })

    test('takes the same nonce from another payer and on another network', async () => {
      expect(await payments.claim(claim(now, { authorizationNonce: nonce, wallet: testWallet(2) }), now)).toBe(true)
      const { network, address: asset } = assets['eip155:8453']
      const wallet = createWallet(`0x${'01'.repeat(32)}`, assets['eip155:8453'])
      const asked = requirements({ network, asset })
      const mainnet = claim(now, { authorizationNonce: nonce, wallet, requirements: asked })
      expect(await payments.claim(mainnet, now)).toBe(true)
    })

    test('is known in any letter case', async () => {
      const { network, asset } = first.requirements
      const { from } = first.signed.authorization
      expect(
        await payments.authorizationSeen(network, asset.toLowerCase(), from.toLowerCase(), nonce.toUpperCase()),
      ).toBe(true)
      expect(await payments.authorizationSeen('eip155:8453', asset, from, nonce)).toBe(false)
      expect(await payments.authorizationSeen(network, asset, testWallet(2).address, nonce)).toBe(false)
    })
  })

  test('one challenge buys one payment, whatever authorization comes with it', async () => {
    const challengeNonce = randomHex()
    expect(await payments.claim(claim(now, { challengeNonce }), now)).toBe(true)
    expect(await payments.claim(claim(now, { challengeNonce }), now)).toBe(false)
    const shouted = challengeNonce.toUpperCase().replace('0X', '0x') as Hex
    expect(await payments.claim(claim(now, { challengeNonce: shouted }), now)).toBe(false)
  })

  test('T5: of many claims of one authorization at the same time exactly one holds', async () => {
    const payment = claim(now)
    const claims = Array.from({ length: 50 }, (_, peer) => payments.claim({ ...payment, peerId: `peer ${peer}` }, now))
    expect((await Promise.all(claims)).filter(Boolean)).toHaveLength(1)
  })

  test('a result and the state that follows from it are stored together', async () => {
    const payment = claim(now)
    await payments.claim(payment, now)
    const owed = { id: payment.id, state: 'owed' as const, attempts: 1, nextAttemptAt: now + 5, unclear: true }
    await payments.deliver(owed, exchangeOf(payment, now), now)
    expect(await payments.get(payment.id)).toMatchObject({
      state: 'owed',
      attempts: 1,
      nextAttemptAt: now + 5,
      unclear: true,
    })
    expect(await createExchanges(database).paidOutput(payment.id)).toBe('result')
    const broken = exchangeOf(payment, now, { input: undefined as never, paymentId: undefined })
    await expect(payments.deliver({ id: payment.id, state: 'settled' }, broken, now)).rejects.toThrow()
    expect((await payments.get(payment.id))?.state).toBe('owed')
  })

  test.each<PaymentState>(['settled', 'voided', 'unsettled'])('%s is final', async (state) => {
    const payment = claim(now)
    await payments.claim(payment, now)
    const txHash = randomHex()
    await payments.save({ id: payment.id, state, txHash, error: 'end', attempts: 3 }, now)
    for (const other of ['authorized', 'owed', 'settled', 'voided', 'unsettled'] as const) {
      await payments.save({ id: payment.id, state: other, txHash: randomHex(), attempts: 9 }, now + 1)
    }
    await payments.takeOver('late', now)
    await payments.hasten(now)
    expect(await payments.get(payment.id)).toMatchObject({ state, txHash, error: 'end', attempts: 3, updatedAt: now })
  })

  test('what is due comes longest overdue first, and only that', async () => {
    const ids: Hex[] = []
    for (const wait of [30, 10, 20, 1_000]) {
      const payment = claim(now)
      await payments.claim(payment, now)
      await payments.save({ id: payment.id, state: 'owed', attempts: 1, nextAttemptAt: now + wait }, now)
      ids.push(payment.id)
    }
    const due = async (at: number, limit = 10) => (await payments.due(at, limit)).map(({ id }) => ids.indexOf(id))
    expect(await due(now)).toEqual([])
    expect(await due(now + 30)).toEqual([1, 2, 0])
    expect(await due(now + 30, 2)).toEqual([1, 2])
    expect(await payments.nextDueAt()).toBe(now + 10)
    expect(await payments.counts()).toEqual({ owed: 4, unsettled: 0 })
  })

  test('T16: what lies further ahead than any wait is due, since the clock was set back', async () => {
    const payment = claim(now)
    await payments.claim(payment, now)
    await payments.save({ id: payment.id, state: 'owed', attempts: 1, nextAttemptAt: now + 60_000 }, now)
    expect(await payments.due(now, 1)).toHaveLength(0)
    expect(await payments.due(now - 60 * 60 * 1000, 1)).toHaveLength(1)
  })

  test('after a restart what was running is void and what is owed is due', async () => {
    const [running, owed, later] = [claim(now), claim(now), claim(now)]
    const before = createPayments(asEnded(database))
    for (const payment of [running, owed, later]) await before.claim(payment, now)
    const living = claim(now)
    await payments.claim(living, now)
    await payments.save({ id: owed.id, state: 'owed', attempts: 1, nextAttemptAt: now - 5 }, now)
    await payments.save({ id: later.id, state: 'owed', attempts: 2, nextAttemptAt: now + 30_000 }, now)
    expect(await payments.due(now, 10)).toEqual([])
    expect(await payments.takeOver('stopped', now)).toBe(1)
    expect((await payments.get(living.id))?.state).toBe('authorized')
    expect(await payments.get(running.id)).toMatchObject({ state: 'voided', error: 'stopped' })
    expect((await payments.due(now, 10)).map(({ id, attempts }) => [id, attempts])).toEqual([
      [owed.id, 1],
      [later.id, 2],
    ])
  })

  test('T5: of claims at several processes at the same time one holds, for an authorization and for a challenge', async () => {
    const stores = (await openTwo()).map((ledger) => createPayments(ledger))
    for (let round = 0; round < 10; round++) {
      const challengeNonce = randomHex()
      const same = claim(now, { challengeNonce, authorizationNonce: challengeNonce })
      const others = [same, claim(now, { challengeNonce }), claim(now, { challengeNonce, wallet: testWallet(2) })]
      const orders = [others, others.toReversed()]
      const asked = stores.flatMap((store, at) => orders[at]!.map((payment) => store.claim(payment, now)))
      expect((await Promise.all(asked)).filter(Boolean)).toHaveLength(1)
      const stranger = claim(now, { challengeNonce, authorizationNonce: challengeNonce, wallet: testWallet(2) })
      expect(await stores[1]!.claim(stranger, now)).toBe(false)
      expect(await stores[0]!.challengeConsumed(challengeNonce)).toBe(true)
    }
  })

  test('each of two processes stores its results with their own payments, also for one caller', async () => {
    const stores = (await openTwo()).map((ledger) => ({
      payments: createPayments(ledger),
      exchanges: createExchanges(ledger),
    }))
    const sold = Array.from({ length: 20 }, () => claim(now))
    await Promise.all(sold.map((payment) => stores[0]!.payments.claim(payment, now)))
    const delivered = sold.map((payment, n) => {
      const result = exchangeOf(payment, now, { output: `result of ${payment.id}` })
      return stores[n % 2]!.payments.deliver({ id: payment.id, state: 'owed', nextAttemptAt: now }, result, now)
    })
    await Promise.all(delivered)
    for (const { id } of sold) expect(await stores[0]!.exchanges.paidOutput(id)).toBe(`result of ${id}`)
  })

  test('a payment that is given up is told as it is then, without its task', async () => {
    const payment = claim(now, { task: 'a task' })
    await payments.claim(payment, now)
    expect(await payments.save({ id: payment.id, state: 'owed', attempts: 1, nextAttemptAt: now }, now)).toBeUndefined()
    const given = await payments.save({ id: payment.id, state: 'unsettled', error: 'no funds', blamed: true }, now + 1)
    expect(given).toEqual(await payments.get(payment.id))
    expect(given).toMatchObject({ state: 'unsettled', error: 'no funds', task: '', blamed: true, updatedAt: now + 1 })
    expect(await payments.save({ id: payment.id, state: 'unsettled', error: 'again' }, now + 2)).toBeUndefined()
  })

  test('work that was never paid is summed up by time, and by the payer at fault with its latest peer', async () => {
    const HOUR_MS = 60 * 60 * 1000
    const lose = async (changes: Parameters<typeof claim>[1], at: number, blamed: boolean) => {
      const payment = claim(now, changes)
      await payments.claim(payment, now)
      await payments.deliver({ id: payment.id, state: 'owed', nextAttemptAt: now }, exchangeOf(payment, now), now)
      await payments.save({ id: payment.id, state: 'unsettled', blamed }, at)
      return payment.signed.authorization.from
    }
    const wallet = testWallet(2)
    const first = await lose({ peerId: 'p1', wallet }, now, true)
    await lose({ peerId: 'p2', wallet }, now + HOUR_MS, true)
    const second = await lose({ peerId: 'p3', wallet: testWallet(3) }, now + 1, true)
    await lose({ peerId: 'p4', wallet: testWallet(4) }, now + 2, false)
    const { slots, payers } = await payments.lost(now, { slotMs: HOUR_MS, payersMax: 2 })
    expect(slots.toSorted((a, b) => a.at - b.at)).toEqual([
      { at: now, amount: 30_000n },
      { at: now + HOUR_MS, amount: 10_000n },
    ])
    expect(payers).toEqual([
      { payer: second, peerId: 'p3', count: 1, at: now + 1 },
      { payer: first, peerId: 'p2', count: 2, at: now + HOUR_MS },
    ])
  })

  test('D46 a buyer learns the transactions of its own payments, as far as there are any', async () => {
    const made = [claim(now), claim(now, { peerId: 'other' }), claim(now)]
    const [own, foreign, open] = made.map(({ id }) => id)
    for (const one of made) {
      await payments.claim(one, now)
      await payments.deliver({ id: one.id, state: 'owed', nextAttemptAt: now }, exchangeOf(one, now), now)
    }
    const txHash = randomHex()
    for (const id of [own!, foreign!]) await payments.save({ id, state: 'settled', txHash }, now)
    const { peerId } = made[0]!
    const named = await payments.transactionsOf([open!, own!, foreign!, randomHex()], peerId)
    expect(named).toEqual([{ id: own, txHash }])
    expect(await payments.transactionsOf([], peerId)).toEqual([])
  })

  test('D38 a settlement that is undone, and one that is tried again, is so once', async () => {
    const [gone, again] = [claim(now), claim(now)]
    for (const payment of [gone, again]) {
      await payments.claim(payment, now)
      await payments.deliver({ id: payment.id, state: 'owed', nextAttemptAt: now }, exchangeOf(payment, now), now)
    }
    const [txHash, moved] = [randomHex(), randomHex()]
    await payments.save({ id: gone.id, state: 'settled', txHash, lookAt: now + 5 }, now)
    await payments.save({ id: again.id, state: 'unsettled' }, now)
    expect([await payments.nextLookAt(), (await payments.settledDue(now + 5, 9)).map(({ id }) => id)]).toEqual([
      now + 5,
      [gone.id],
    ])
    await payments.lookAgain(gone.id, now + 9, moved)
    expect([await payments.nextLookAt(), (await payments.get(gone.id))?.txHash]).toEqual([now + 9, moved])
    expect(await Promise.all([0, 1].map(() => payments.takeBack({ id: gone.id, attempts: 1 }, now)))).toEqual([
      true,
      false,
    ])
    expect(await payments.get(gone.id)).toMatchObject({ state: 'owed', attempts: 1, unclear: true, txHash: undefined })
    const reopened = { id: again.id, state: 'owed' as const, attempts: 1 }
    expect(await Promise.all([0, 1].map(() => payments.reopen(reopened, now)))).toEqual([true, false])
    expect((await payments.open()).map(({ id }) => id).toSorted()).toEqual([gone.id, again.id].toSorted())
    expect([await payments.hastenOne(gone.id, now + 1), await payments.hastenOne(randomHex(), now)]).toEqual([
      true,
      false,
    ])
    expect(await payments.oldestOwed()).toBe(now)
  })

  test('D45 a payment is paid back once, and a refund that may be on its way is known', async () => {
    const payment = claim(now)
    await payments.claim(payment, now)
    await payments.save({ id: payment.id, state: 'owed', nextAttemptAt: now }, now)
    await payments.save({ id: payment.id, state: 'settled', txHash: randomHex() }, now)
    expect(await payments.isBeingPaidBack(payment.id)).toBe(false)
    const hash = randomHex()
    await payments.paidBack(payment.id, hash, now)
    await payments.paidBack(payment.id, randomHex(), now)
    expect((await payments.get(payment.id))?.refundTx).toBe(hash)
  })
})
