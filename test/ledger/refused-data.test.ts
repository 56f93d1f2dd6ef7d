/** Data that the database does not take: an error of that request, for nobody else and without another try. */
import { expect, test } from 'vitest'
import { all, one, run, steps } from '../../src/store/query.ts'
import { isLedgerAway } from '../../src/store/store-error.ts'
import { onBothEngines } from '../support/ledgers.ts'

const put = (name: string, n: number | null) => run('INSERT INTO added (name, n) VALUES (?, ?)', name, n)
const stepped = (name: string, n: number | null) =>
  steps(function* () {
    yield* one('SELECT count(*) AS n FROM added')
    return yield* put(name, n)
  })

onBothEngines((open, _openTwo, engine) => {
  test('a change whose data the database refuses fails at once, alone, and not as a ledger that is away', async () => {
    const ledger = await open()
    await ledger.commit(run('CREATE TABLE added (name TEXT, n INTEGER NOT NULL)'))
    const refused = [
      ledger.commit(put('nothing', null)),
      ledger.commit(stepped('nothing later', null)),
      // SQLite has no limit there.
      ...(engine === 'PostgreSQL'
        ? [ledger.commit(put('too large', 1e300)), ledger.commit(stepped('more', 1e19))]
        : []),
    ]
    const [taken, ...outcomes] = await Promise.allSettled([ledger.commit(put('sound', 1)), ...refused])
    expect(taken?.status).toBe('fulfilled')
    for (const outcome of outcomes) {
      const { reason } = outcome as PromiseRejectedResult
      expect(reason).toMatchObject({ code: 'STORE_REFUSED' })
      expect(isLedgerAway(reason)).toBe(false)
    }
    await ledger.commit(put('next', 2))
    expect(await ledger.query(all('SELECT name FROM added ORDER BY n'))).toEqual([{ name: 'sound' }, { name: 'next' }])
  })

  test.skipIf(engine === 'SQLite')('so does a read, where numbers have a range', async () => {
    const ledger = await open()
    const wide = one<{ n: number }>('SELECT count(*) AS n FROM payments WHERE no > ?', 1e300)
    const read = ledger.query(wide)
    await expect(read).rejects.toMatchObject({ code: 'STORE_REFUSED', message: expect.stringContaining('change it') })
    await expect(read).rejects.not.toSatisfy(isLedgerAway)
    expect(await ledger.query(one('SELECT count(*) AS n FROM payments'))).toEqual({ n: 0 })
  })
})
