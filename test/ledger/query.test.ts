import { expect, test } from 'vitest'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { all, lock, nothing, one, run, steps, together } from '../../src/store/query.ts'
import { onBothEngines } from '../support/ledgers.ts'

const put = (n: number, word: string) => run('INSERT INTO numbers (n, word) VALUES (?, ?)', n, word)
const words = all<{ word: string }>('SELECT word FROM numbers ORDER BY n')

onBothEngines((open, openTwo) => {
  const withTable = async (database: LedgerDatabase) => {
    await database.commit(run('CREATE TABLE numbers (n INTEGER PRIMARY KEY, word TEXT)'))
    return database
  }
  const numbers = async () => withTable(await open())

  test('a change reads what it wrote before, and gives its value after the commit', async () => {
    const database = await numbers()
    const change = steps(function* () {
      yield* lock('numbers')
      yield* put(1, 'one')
      const row = yield* one<{ n: number }>('SELECT max(n) AS n FROM numbers')
      const changes = yield* put(row!.n + 1, 'two')
      return { last: row!.n + 1, changes }
    })
    expect(await database.commit(change)).toEqual({ last: 2, changes: 1 })
    expect(await database.query(words)).toEqual([{ word: 'one' }, { word: 'two' }])
  })

  test('a change that fails leaves nothing, and those of its group are kept', async () => {
    const database = await numbers()
    const bad = steps(function* () {
      yield* put(5, 'five')
      throw new Error('no')
    })
    const outcomes = await Promise.allSettled([
      database.commit(put(1, 'one')),
      database.commit(bad),
      database.commitLater(put(2, 'two')),
    ])
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(await database.query(words)).toEqual([{ word: 'one' }, { word: 'two' }])
  })

  test('queries together run side by side, and each gets its own answers', async () => {
    const database = await numbers()
    const double = (n: number) =>
      steps(function* () {
        yield* put(n, `${n}`)
        const row = yield* one<{ n: number }>('SELECT n FROM numbers WHERE n = ?', n)
        return (row?.n ?? 0) * 2
      })
    const mixed = together(double(1), put(7, 'seven'), nothing('x'), double(2))
    expect(mixed.plain).toBeUndefined()
    expect(await database.commit(mixed)).toEqual([2, 1, 'x', 4])
    const plain = together(put(8, 'eight'), words)
    expect(plain.plain).toHaveLength(2)
    const [changes, rows] = await database.commit(plain)
    expect(changes).toBe(1)
    expect(rows.map(({ word }) => word)).toEqual(['1', '2', 'seven', 'eight'])
  })

  test('a lock inside of together is refused', async () => {
    const database = await numbers()
    await expect(database.commit(together(lock('a'), words))).rejects.toThrow(/lock "a"/)
  })

  test('a query can be run again', async () => {
    const database = await numbers()
    await database.commit(put(1, 'one'))
    expect(await database.query(words)).toEqual(await database.query(words))
  })

  test('of two changes that take one lock, each sees what the other has committed', async () => {
    const [first, second] = await openTwo()
    await withTable(first)
    const next = steps(function* () {
      yield* lock('numbers')
      const row = yield* one<{ n: number }>('SELECT coalesce(max(n), 0) AS n FROM numbers')
      yield* put(row!.n + 1, 'next')
      return row!.n + 1
    })
    const given = await Promise.all(Array.from({ length: 20 }, (_, turn) => (turn % 2 ? first : second).commit(next)))
    expect(given.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, index) => index + 1))
  })

  test('one of two writers wins a key', async () => {
    const [first, second] = await openTwo()
    await withTable(first)
    const claim = run('INSERT INTO numbers (n, word) VALUES (?, ?) ON CONFLICT DO NOTHING', 1, 'mine')
    const wins = await Promise.all(Array.from({ length: 20 }, (_, turn) => (turn % 2 ? first : second).commit(claim)))
    expect(wins.reduce((sum, won) => sum + won, 0)).toBe(1)
  })

  test('values come back as they were given', async () => {
    const database = await open()
    const text = 'a\0b\u001a0\u001a1 ü 🦀 \\ \' "'
    const bytes = Uint8Array.from({ length: 256 }, (_, index) => index)
    await database.commit(run('CREATE TABLE given (t TEXT, b BLOB, i INTEGER, n INTEGER)'))
    await database.commit(run('INSERT INTO given VALUES (?, ?, ?, ?)', text, bytes, Number.MAX_SAFE_INTEGER, null))
    const row = await database.query(one('SELECT t, b, i, n FROM given WHERE t = ? AND b = ?', text, bytes))
    expect(row).toEqual({ t: text, b: bytes, i: Number.MAX_SAFE_INTEGER, n: null })
    expect((row as { b: unknown }).b).not.toBeInstanceOf(Buffer)
  })

  test('names, numbers and hex are those that the statement asks for', async () => {
    const database = await numbers()
    await database.commit(put(1, 'one'))
    const later = 1_795_000_000_000
    const asked = one(
      `SELECT n AS theNumber, ?1 - 60000 AS before, substr(word, 1, ?2) AS short, lower(hex(?3)) AS hex,
        CAST(coalesce(sum(n), 0) AS TEXT) AS total, count(*) FILTER (WHERE n = 1) AS ones, CAST('5000000000' AS INTEGER) AS large
      FROM numbers GROUP BY n, word ORDER BY theNumber LIMIT ?4`,
      later,
      2,
      Uint8Array.of(1, 171),
      10,
    )
    expect(await database.query(asked)).toEqual({
      theNumber: 1,
      before: later - 60_000,
      short: 'on',
      hex: '01ab',
      total: '1',
      ones: 1,
      large: 5_000_000_000,
    })
  })

  test('a row is put from a query that may give none', async () => {
    const database = await numbers()
    const once = (n: number) =>
      run(
        'INSERT INTO numbers (n, word) SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM numbers WHERE word = ?)',
        n,
        'a',
        'a',
      )
    expect(await database.commit(once(1))).toBe(1)
    expect(await database.commit(once(2))).toBe(0)
  })

  test('several changes that fail leave those that do not', async () => {
    const database = await numbers()
    const all = Array.from({ length: 20 }, (_, n) => database.commit(put(n % 10, `${n}`)))
    const outcomes = await Promise.allSettled(all)
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(10)
    expect(await database.query(words)).toHaveLength(10)
  })

  test('changes that take two locks in opposite order are both made', async () => {
    const [first, second] = await openTwo()
    await withTable(first)
    const change = (names: [string, string], n: number) =>
      steps(function* () {
        yield* lock(names[0])
        yield* put(n, names[0])
        yield* lock(names[1])
        return yield* put(n + 1, names[1])
      })
    const there = change(['a', 'b'], 1)
    const back = change(['b', 'a'], 3)
    await Promise.all([first.commit(there), second.commit(back)])
    const again = [change(['a', 'b'], 5), change(['b', 'a'], 7)]
    await Promise.all(again.map((each) => first.commit(each)))
    expect(await first.query(words)).toHaveLength(8)
  })

  test('what is written later joins the next commit or gets its own, and a close waits for it', async () => {
    const database = await numbers()
    const later = database.commitLater(put(1, 'one'))
    await database.commit(put(2, 'two'))
    expect(await later).toBe(1)
    expect(await database.commitLater(put(3, 'three'))).toBe(1)
    const last = database.commitLater(put(4, 'four'))
    await database.close()
    expect(await last).toBe(1)
  })

  test('many reads at once each get their own answer, though some of them fail', async () => {
    const database = await numbers()
    for (let n = 0; n < 100; n += 1) database.commitLater(put(n, `${n}`))
    await database.commit(put(100, '100'))
    const word = (n: number) => one<{ word: string }>('SELECT word FROM numbers WHERE n = ?', n)
    const bad = one('SELECT nothing FROM nowhere WHERE n = ?', 1)
    const asked = Array.from({ length: 101 }, (_, n) =>
      n % 10 === 7 ? bad : n % 10 === 3 ? steps(() => word(n)[Symbol.iterator]() as never) : word(n),
    )
    const outcomes = await Promise.allSettled(asked.map((query) => database.query<unknown>(query)))
    for (const [n, outcome] of outcomes.entries()) {
      if (n % 10 === 7) expect(outcome.status).toBe('rejected')
      else expect(outcome).toEqual({ status: 'fulfilled', value: { word: `${n}` } })
    }
  })

  test('a read of several statements sees one state', async () => {
    const [first, second] = await openTwo()
    await withTable(first)
    const count = one<{ n: number }>('SELECT count(*) AS n FROM numbers')
    const twice = steps(function* () {
      const before = yield* count
      yield* words
      const after = yield* count
      return [before!.n, after!.n]
    })
    const writes = Array.from({ length: 30 }, (_, n) => second.commit(put(n, 'more')))
    const reads = await Promise.all(Array.from({ length: 30 }, () => first.query(twice)))
    await Promise.all(writes)
    for (const [before, after] of reads) expect(after).toBe(before)
  })
})
