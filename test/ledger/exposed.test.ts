/** T6: work that has not settled is counted in the ledger, whatever the number of processes. */
import { expect, test } from 'vitest'
import { createExchanges } from '../../src/store/exchanges.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { type Claim, createPayments, type Payments } from '../../src/store/payments.ts'
import { all } from '../../src/store/query.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { claim, exchangeOf, requirements, testWallet } from '../support/payments.ts'

const now = Date.parse('2026-01-01T00:00:00Z')
const PRICE = 10_000n
const payerOf = ({ signed }: Claim) => signed.authorization.from

type SumRow = { payer: string; amount: number; payments: number }

/** What the sums must be, read from the payments. */
async function check(database: LedgerDatabase): Promise<void> {
  const counted = `
    SELECT lower(payer) AS payer, sum(amount) AS amount, count(*) AS payments FROM payments WHERE counted > 0 GROUP BY 1`
  const rows = (await database.query(all<SumRow>(counted))).map((row) => ({ ...row, amount: Number(row.amount) }))
  const total = { payer: '', amount: 0, payments: 0 }
  for (const { amount, payments } of rows) {
    total.amount += amount
    total.payments += payments
  }
  const kept = await database.query(all<SumRow>('SELECT payer, amount, payments FROM exposure'))
  const byPayer = (a: SumRow, b: SumRow) => (a.payer < b.payer ? -1 : 1)
  expect(
    kept
      .map((row) => ({ ...row }))
      .filter(({ payments }) => payments > 0)
      .toSorted(byPayer),
  ).toEqual([...rows, total].filter(({ payments }) => payments > 0).toSorted(byPayer))
}

async function recountAll(payments: Payments): Promise<void> {
  while (!(await payments.recount()).isAll);
}

onBothEngines((open, openTwo) => {
  test('a claim tells the sums with it, and a second claim of the same payment adds nothing', async () => {
    const database = await open()
    const payments = createPayments(database)
    const [one, other, dear] = [
      claim(now),
      claim(now, { wallet: testWallet(2) }),
      claim(now, { requirements: requirements({ amount: 5n * PRICE }) }),
    ]
    const losses = 0
    expect(await payments.claimExposed(one, now)).toEqual({ payer: PRICE, total: PRICE, payments: 1, losses })
    expect(await payments.claimExposed(one, now)).toBeUndefined()
    expect(await payments.claimExposed(other, now)).toEqual({ payer: PRICE, total: 2n * PRICE, payments: 2, losses })
    expect(await payments.claimExposed(dear, now)).toEqual({
      payer: 6n * PRICE,
      total: 7n * PRICE,
      payments: 3,
      losses,
    })
    await check(database)
  })

  test('of claims at several processes at once each is told of all that came before it', async () => {
    const ledgers = await openTwo()
    const stores = ledgers.map(createPayments)
    for (let round = 0; round < 5; round++) {
      const claims = Array.from({ length: 20 }, () => claim(now, { wallet: testWallet(round + 1) }))
      const told = await Promise.all(claims.map((one, n) => stores[n % 2]!.claimExposed(one, now)))
      const sums = told.map((exposed) => exposed!.payer).toSorted((a, b) => Number(a - b))
      expect(sums).toEqual(claims.map((_, n) => BigInt(n + 1) * PRICE))
    }
    // The same payments at both processes: counted once.
    const same = Array.from({ length: 20 }, () => claim(now, { wallet: testWallet(9) }))
    const told = await Promise.all(same.flatMap((one) => stores.map((store) => store.claimExposed(one, now))))
    expect(told.filter((exposed) => exposed !== undefined)).toHaveLength(20)
    expect(await stores[0]!.exposed(payerOf(same[0]!))).toMatchObject({ payer: 20n * PRICE, payments: 120 })
    await check(ledgers[0])
  })

  test('what ended counts no more, however it ended and whoever noted it', async () => {
    const database = await open()
    const payments = createPayments(database)
    const exchanges = createExchanges(database)
    const ends: Record<string, (one: Claim) => Promise<unknown>> = {
      settled: ({ id }) => payments.save({ id, state: 'settled' }, now),
      unsettled: ({ id }) => payments.save({ id, state: 'unsettled', blamed: true }, now),
      voided: (one) => payments.deliver({ id: one.id, state: 'voided', error: 'x' }, exchangeOf(one, now), now),
      'settles first': ({ id }) =>
        database.commit(all("UPDATE payments SET task = 'late' WHERE id = ?", Buffer.from(id.slice(2), 'hex'))),
    }
    for (const [how, end] of Object.entries(ends)) {
      const one = claim(now)
      await payments.claimExposed(one, now)
      expect({ how, ...(await payments.exposed(payerOf(one))) }).toMatchObject({ how, payer: PRICE, payments: 1 })
      await end(one)
      expect({ how, ...(await payments.exposed(payerOf(one))) }).toMatchObject({
        how,
        payer: 0n,
        total: 0n,
        payments: 0,
      })
      expect(await payments.exposedIds()).toEqual([])
      await recountAll(payments)
      expect({ how, ...(await payments.exposed(payerOf(one))) }).toMatchObject({
        how,
        payer: 0n,
        total: 0n,
        payments: 0,
      })
      await check(database)
    }
    expect(await database.query(all('SELECT payer, amount, payments, losses FROM exposure'))).toEqual([
      { payer: '', amount: 0, payments: 0, losses: 1 },
    ])
    void exchanges
  })

  test('work of a payment that settled first counts once its settlement is undone', async () => {
    const database = await open()
    const payments = createPayments(database)
    const one = claim(now, { task: 'task' })
    await payments.claim(one, now)
    const exposed = async () => (await payments.exposed(payerOf(one))).payer
    expect(await exposed()).toBe(0n)
    await payments.save({ id: one.id, state: 'owed', nextAttemptAt: now }, now)
    expect(await exposed()).toBe(0n)
    await payments.save({ id: one.id, state: 'settled', txHash: one.id }, now)
    await createExchanges(database).record(exchangeOf(one, now))
    expect(await exposed()).toBe(0n)
    await payments.takeBack({ id: one.id, attempts: 1 }, now)
    expect([await exposed(), await payments.exposedIds()]).toEqual([PRICE, [one.id]])
    expect(await payments.recount()).toEqual({ isAll: true, noted: 1, losses: 1 })
    expect(await exposed()).toBe(PRICE)
    await check(database)
    // Claims go on beside it.
    expect(await payments.claimExposed(claim(now), now)).toMatchObject({ payer: 2n * PRICE, losses: 1 })
  })

  test('several processes that recount at once take each payment off once', async () => {
    const ledgers = await openTwo()
    const stores = ledgers.map(createPayments)
    const claims = Array.from({ length: 60 }, (_, n) => claim(now, { wallet: testWallet(1 + (n % 3)) }))
    await Promise.all(claims.map((one, n) => stores[n % 2]!.claimExposed(one, now)))
    await Promise.all(
      claims.map(async ({ id }, n) => {
        if (n % 5 > 0) await stores[n % 2]!.save({ id, state: 'settled' }, now)
        await Promise.all(stores.map((store) => store.recount()))
      }),
    )
    await Promise.all(stores.map(recountAll))
    await check(ledgers[1])
    expect(await stores[1]!.exposed(payerOf(claims[0]!))).toMatchObject({ total: 12n * PRICE, payments: 12 })
  })
})
