/** What PostgreSQL gives up for the sake of another transaction is made again, and made once. */
import { expect, onTestFinished, test } from 'vitest'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { all, lock, one, run, steps, together } from '../../src/store/query.ts'
import { createTestDatabase } from '../support/test-postgres.ts'

const put = (name: string) => run('INSERT INTO added (name) VALUES (?)', name)
const added = all<{ name: string }>('SELECT name FROM added ORDER BY name')
/** Fails with a state of SQL until it was called so often. What a sequence has given is not taken back. */
const fail = (state: string, times: number) => one('SELECT fail_at_first(?, ?)', state, times)

test.each(['40001', '40P01', '55P03'])('a change that fails with %s is made again', async (state) => {
  const [ledger] = await open()
  const failing = steps(function* () {
    yield* put('failing')
    yield* fail(state, 3)
  })
  await Promise.all([ledger.commit(failing), ledger.commit(put('beside'))])
  expect(await ledger.query(added)).toEqual([{ name: 'beside' }, { name: 'failing' }])
})

test.each(['40001', '40P01'])('a change that fails with %s at its commit is made again', async (state) => {
  const [ledger] = await open()
  await ledger.commit(run('UPDATE failing SET state = ?, times = 3', state))
  await Promise.all([ledger.commit(put('late')), ledger.commit(put('beside'))])
  expect(await ledger.query(added)).toEqual([{ name: 'beside' }, { name: 'late' }])
})

test('a change that fails at its commit for another reason fails alone', async () => {
  const [ledger] = await open()
  await ledger.commit(run("UPDATE failing SET state = '23514', times = 1000, name = 'late'"))
  const outcomes = await Promise.allSettled([ledger.commit(put('late')), ledger.commit(put('beside'))])
  expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
  expect(await ledger.query(added)).toEqual([{ name: 'beside' }])
})

test.each([
  ['40001', 'IMMEDIATE'],
  ['40P01', 'IMMEDIATE'],
  ['55P03', 'IMMEDIATE'],
  ['40001', 'DEFERRED'],
])('a start that fails with %s is tried again: %s', async (state, when) => {
  const [ledger] = await open()
  await ledger.commit(run('UPDATE failing SET state = ?, times = 3', state))
  await ledger.commit(
    run(`CREATE CONSTRAINT TRIGGER starts_fail AFTER INSERT ON processes DEFERRABLE INITIALLY ${when}
      FOR EACH ROW EXECUTE FUNCTION fail_start()`),
  )
  const started = await ledger.another()
  await started.commit(put('started'))
  expect(await ledger.query(added)).toEqual([{ name: 'started' }])
})

test('a start that meets others for ever is refused with the reason', async () => {
  const [ledger] = await open()
  await ledger.commit(run("UPDATE failing SET state = '40001', times = 1000"))
  await ledger.commit(
    run('CREATE TRIGGER starts_fail BEFORE INSERT ON processes FOR EACH ROW EXECUTE FUNCTION fail_start()'),
  )
  const refused = { code: 'STORE_WRITE_FAILED', message: expect.stringContaining('too busy') }
  await expect(ledger.another()).rejects.toMatchObject(refused)
})

test('a change that meets others for ever is refused with the reason', async () => {
  const [ledger] = await open()
  const refused = { code: 'STORE_WRITE_FAILED', message: expect.stringContaining('too busy') }
  await expect(ledger.commit(steps(() => fail('40001', 1000)[Symbol.iterator]() as never))).rejects.toMatchObject(
    refused,
  )
  await ledger.commit(put('next'))
  expect(await ledger.query(added)).toEqual([{ name: 'next' }])
})

test('two processes that lock each other out both go on', async () => {
  const [first, second] = await open(2)
  const crossing = (mine: string, other: string) =>
    steps(function* () {
      yield* lock(mine)
      yield* put(mine)
      yield* lock(other)
      return yield* put(other)
    })
  for (let round = 0; round < 5; round += 1) {
    await Promise.all([first!.commit(crossing('a', 'b')), second!.commit(crossing('b', 'a'))])
  }
  expect(await first!.query(added)).toHaveLength(20)
})

test('a change that ends its connection each time is refused, and those of its group are made once', async () => {
  const [ledger] = await open()
  const ending = steps(function* () {
    yield* put('ending')
    yield* one('SELECT pg_terminate_backend(pg_backend_pid())')
  })
  const plainly = together(put('ending'), one('SELECT pg_terminate_backend(pg_backend_pid())'))
  const outcomes = await Promise.allSettled([
    ledger.commit(put('first')),
    ledger.commit(ending),
    ledger.commit(plainly),
    ledger.commit(put('last')),
  ])
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled'])
  expect(outcomes[1]).toMatchObject({ reason: { code: 'STORE_AWAY' } })
  expect(await ledger.query(added)).toEqual([{ name: 'first' }, { name: 'last' }])
})

test('a statement that the server no longer knows is told to it again', async () => {
  const [ledger] = await open()
  await ledger.commit(put('one'))
  await ledger.query(added)
  // Both the writer and a reader have prepared statements whose rows now look different.
  await ledger.commit(run('DEALLOCATE ALL'))
  await ledger.commit(run('ALTER TABLE added ADD COLUMN more TEXT'))
  await ledger.commit(put('two'))
  expect(await ledger.query(all('SELECT * FROM added ORDER BY name'))).toHaveLength(2)
  await ledger.commit(run('ALTER TABLE added DROP COLUMN more'))
  expect(await ledger.query(all('SELECT * FROM added ORDER BY name'))).toEqual([{ name: 'one' }, { name: 'two' }])
})

async function open(count = 1) {
  const database = await createTestDatabase()
  const ledgers: LedgerDatabase[] = []
  const another = async () => {
    const ledger = await openPostgres({ address: database.address() })
    ledgers.push(ledger)
    return ledger
  }
  while (ledgers.length < count) await another()
  onTestFinished(async () => {
    await Promise.all(ledgers.map((ledger) => ledger.close()))
    await database.drop()
  })
  for (const sql of SCHEMA) await ledgers[0]!.commit(run(sql))
  const [first, ...others] = ledgers
  return [{ ...first!, another }, ...others] as const
}

const SCHEMA = [
  'CREATE TABLE added (name TEXT)',
  'CREATE SEQUENCE fails',
  `CREATE FUNCTION fail_at_first(state TEXT, times BIGINT) RETURNS BIGINT LANGUAGE plpgsql AS $$
    BEGIN
      IF nextval('fails') <= times THEN RAISE EXCEPTION USING ERRCODE = state; END IF;
      RETURN 1;
    END $$`,
  'CREATE TABLE failing (state TEXT, times BIGINT, name TEXT)',
  "INSERT INTO failing VALUES ('', 0, '')",
  `CREATE FUNCTION fail_late() RETURNS TRIGGER LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM fail_at_first(state, times) FROM failing WHERE name IN ('', NEW.name);
      RETURN NULL;
    END $$`,
  `CREATE FUNCTION fail_start() RETURNS TRIGGER LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM fail_at_first(state, times) FROM failing;
      RETURN NEW;
    END $$`,
  `CREATE CONSTRAINT TRIGGER fails_late AFTER INSERT ON added DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION fail_late()`,
]
