/** PostgreSQL behind a network that breaks: nothing is committed twice, nothing that resolved is lost. */
import { expect, onTestFinished, test } from 'vitest'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { all, lock, one, type Query, run, steps, together } from '../../src/store/query.ts'
import { type Fate, startPostgresProxy } from '../support/postgres-proxy.ts'
import { createTestDatabase, testPostgres } from '../support/test-postgres.ts'
import { until } from '../support/until.ts'

type Change = (name: string) => Query<unknown>

const put = (name: string) => run('INSERT INTO added (name) VALUES (?)', name)
const plain: Change = (name) => together(put(name), one('SELECT count(*) AS n FROM added WHERE name = ?', name))
const stepped: Change = (name) =>
  steps(function* () {
    const before = yield* one<{ n: number }>('SELECT count(*) AS n FROM added WHERE name = ?', name)
    yield* put(name)
    return before
  })
const locking: Change = (name) =>
  steps(function* () {
    yield* lock('added')
    return yield* stepped(name)
  })
/** A read of two steps. */
const counts = steps(function* () {
  const first = yield* one<{ n: number }>('SELECT count(*) AS n FROM added')
  const second = yield* one<{ n: number }>('SELECT count(*) AS n FROM added')
  return [first!.n, second!.n]
})
const groups: Record<string, Change[]> = {
  'changes that are known from the start': [plain, plain],
  'changes of several steps': [stepped, locking],
  'changes of both kinds': [plain, stepped, locking],
}

test.each(Object.keys(groups))('%s are made once, wherever both sides lose the connection', async (kind) => {
  await breakEverywhere(groups[kind]!, 'cut')
})

test.each(Object.keys(groups))('%s are made once, wherever the node alone loses the connection', async (kind) => {
  await breakEverywhere(groups[kind]!, 'leave')
})

test('changes are made once if the connection is lost again and again', async () => {
  const { ledger, proxy, check } = await open()
  for (let limit = 12; limit < 60; limit += 3) {
    const passed = new Map<number, number>()
    proxy.onMessage(({ connection }) => {
      const count = (passed.get(connection) ?? 0) + 1
      passed.set(connection, count)
      return count > limit + passed.size && passed.size <= 3 ? 'cut' : 'pass'
    })
    await check(ledger, [plain, stepped, locking])
  }
})

test.each([1, 2, 3])(
  'a connection that falls silent at its %s. end of a pipeline does not hold up the next',
  async (at) => {
    const { ledger, proxy, check } = await open({ answerMs: 1_000, waitMs: 8_000 })
    let first: number | undefined
    let second: number | undefined
    let ends = 0
    proxy.onMessage(({ from, type, connection }) => {
      if (from === 'server' || type !== 'S') return 'pass'
      if (first === undefined) {
        first = connection
        return 'leave'
      }
      if (connection === first) return 'pass'
      second ??= connection
      ends += connection === second ? 1 : 0
      // The server has run the statements before it, and keeps their locks until it hears of an end.
      return connection === second && ends === at ? 'hold' : 'pass'
    })
    await check(ledger, [stepped])
    expect(ends).toBeGreaterThanOrEqual(at)
  },
)

test('a change that waits in the network is not made any more when it was made again', async () => {
  const { ledger, proxy, check, counted } = await open({ answerMs: 1_000 })
  for (const from of ['client', 'server'] as const) {
    for (const type of from === 'client' ? ['B', 'E', 'H', 'S'] : ['2', 'C', 'Z']) {
      let isHeld = false
      proxy.onMessage((message) => {
        if (isHeld || message.from !== from || message.type !== type) return 'pass'
        isHeld = true
        return 'hold'
      })
      const names = await check(ledger, [plain, plain])
      expect(isHeld).toBe(true)
      await proxy.release()
      expect(await counted(names)).toEqual(names.map((name) => ({ name, n: 1 })))
    }
  }
})

test('a read is repeated when its connection is lost', async () => {
  const { ledger, proxy } = await open()
  for (let at = 0, isCut = true; isCut; at += 1) {
    isCut = false
    let passed = 0
    proxy.onMessage(() => {
      passed += 1
      if (isCut || passed <= at) return 'pass'
      isCut = true
      return 'cut'
    })
    expect(await ledger.query(counts)).toEqual([0, 0])
  }
})

test('a read is refused when the database is silent for too long', async () => {
  const { ledger, proxy } = await open({ answerMs: 1_000, waitMs: 1 })
  expect(await ledger.query(counts)).toEqual([0, 0])
  proxy.onMessage(() => 'hold')
  await expect(ledger.query(counts)).rejects.toMatchObject({ code: 'STORE_AWAY' })
})

test('while the database cannot be reached a change is refused, and made again when it can', async () => {
  const { ledger, proxy, check } = await open({ waitMs: 300 })
  proxy.onMessage(() => 'cut')
  proxy.cut()
  const refused = { code: 'STORE_AWAY', message: expect.not.stringContaining('password') }
  await expect(ledger.query(all('SELECT * FROM added'))).rejects.toMatchObject(refused)
  await expect(ledger.commit(put('away'))).rejects.toMatchObject(refused)
  proxy.onMessage(() => 'pass')
  // The next connection may take longer than a change waits here.
  await until(() =>
    ledger.query(counts).then(
      () => true,
      () => false,
    ),
  )
  await check(ledger, [plain, stepped])
  expect(await ledger.query(all('SELECT * FROM added WHERE name = ?', 'away'))).toEqual([])
})

test('a change whose commit nobody confirms is refused as one in doubt', async () => {
  const { ledger, proxy, counted } = await open({ answerMs: 1_000, waitMs: 300 })
  let silent: number | undefined
  proxy.onMessage(({ from, type, connection }) => {
    // Everything is held from the first answer of the commit on, and no other connection comes through.
    if (from === 'server' && type === 'Z') silent ??= connection
    if (silent === undefined) return 'pass'
    return connection === silent ? 'hold' : 'cut'
  })
  await expect(ledger.commit(put('unclear'))).rejects.toMatchObject({ code: 'STORE_IN_DOUBT' })
  proxy.onMessage(() => 'pass')
  proxy.cut()
  expect(await counted(['unclear'])).toEqual([{ name: 'unclear', n: 1 }])
})

/** Loses the connection at each message of a group in turn. */
async function breakEverywhere(changes: readonly Change[], fate: Fate): Promise<void> {
  const { ledger, proxy, check } = await open()
  let at = 0
  for (let isBroken = true; isBroken; at += 1) {
    isBroken = false
    let passed = 0
    proxy.onMessage(() => {
      passed += 1
      if (isBroken || passed <= at) return 'pass'
      isBroken = true
      return fate
    })
    await check(ledger, changes)
  }
  expect(at).toBeGreaterThan(20)
}

type Times = { answerMs?: number; waitMs?: number }

async function open(times: Times = {}) {
  const [database, target] = await Promise.all([createTestDatabase(), testPostgres()])
  const proxy = await startPostgresProxy(target)
  const ledger = await openPostgres({ address: database.address(proxy.port), ...times })
  const direct = await openPostgres({ address: database.address() })
  onTestFinished(async () => {
    proxy.onMessage(() => 'pass')
    proxy.cut()
    await Promise.all([ledger.close(), direct.close()])
    await proxy.close()
    await database.drop()
  })
  await ledger.commit(run('CREATE TABLE added (name TEXT)'))
  const counted = (names: readonly string[]) =>
    direct.query(
      all<{ name: string; n: number }>(
        `SELECT name, count(*) AS n FROM added WHERE name IN (${names.map(() => '?').join()}) GROUP BY name ORDER BY name`,
        ...names,
      ),
    )
  let round = 0
  /** Makes changes at once while the network does what it was told, and compares what they said with what is there. */
  const check = async (on: LedgerDatabase, changes: readonly Change[]) => {
    round += 1
    const names = changes.map((_, index) => `${String(round).padStart(4, '0')}-${index}`)
    const outcomes = await Promise.allSettled(changes.map((change, index) => on.commit(change(names[index]!))))
    const rows = new Map((await counted(names)).map(({ name, n }) => [name, n]))
    for (const [index, outcome] of outcomes.entries()) {
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'STORE_IN_DOUBT' })
      expect({ round, name: names[index], n: rows.get(names[index]!) }).toEqual({ round, name: names[index], n: 1 })
    }
    return names
  }
  return { ledger, proxy, check, counted }
}
