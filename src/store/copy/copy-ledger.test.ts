import { expect, test } from 'vitest'
import { type Database, openDatabase } from '../database.ts'
import type { LedgerDatabase } from '../ledger-database.ts'
import { ledgerId } from '../ledger-id.ts'
import { copyLedger } from './copy-ledger.ts'
import { ledgerTables } from './ledger-tables.ts'
import { checkFinished } from './unfinished.ts'

const PAYMENT = `
  INSERT INTO payments (no, id, state, agent_id, peer_id, correlation_id, network, asset, pay_to, amount, max_timeout_s, payer,
    authorization_nonce, valid_after_s, valid_before_s, signature, task, created_at, updated_at)
  VALUES (?, ?, 'owed', 'a', 'p', 'c', 'n', 'asset', 'to', ?, 60, 'payer', ?, 0, 1, x'00ff', ?, 1, 1)`

const EXCHANGE = `
  INSERT INTO exchanges (agent_id, caller_id, correlation_id, input, output, payment_no, created_at, duration_ms)
  VALUES ('a', 'caller', 'c', ?, NULL, ?, 1, 2)`

async function ledger(payments: number): Promise<Database> {
  const database = openDatabase({ path: ':memory:' })
  await database.write(() => {
    for (let no = 1; no <= payments; no++) {
      const id = Buffer.from(String(no).padStart(32, '0'))
      database.run(PAYMENT, no * 2, id, no, id, no % 7 === 0 ? 'long '.repeat(200_000) : 'tägliche \0 task')
      database.run(EXCHANGE, `input ${no}`, no * 2)
    }
    database.run(
      "INSERT INTO kv (key, value) VALUES ('budget.rules', '{}'), ('listings.index', '7'), ('ledger_home', '{}')",
    )
    database.run('UPDATE run_time SET ms = 1234')
    database.run('UPDATE revisions SET noted = 5')
  })
  return database
}

const rows = (database: Database) => {
  return Object.fromEntries(
    ['payments', 'exchanges', 'run_time', 'revisions'].map((name) => [name, database.all(`SELECT * FROM ${name}`)]),
  )
}

test('a ledger is the same after it was copied, in batches, without what belongs to a place', async () => {
  const [from, to] = [await ledger(600), openDatabase({ path: ':memory:' })]
  const id = await ledgerId(from)
  const copied = await copyLedger(from, to)
  expect(rows(to)).toEqual(rows(from))
  expect(copied.find(({ table }) => table === 'payments')).toEqual({ table: 'payments', rows: 600 })
  expect(to.all('SELECT key, value FROM kv ORDER BY key')).toEqual([
    { key: 'budget.rules', value: '{}' },
    { key: 'ledger_id', value: id },
  ])
  await checkFinished(to)
})

test('every table is copied, except those that belong to one process', async () => {
  const names = (await ledgerTables()).map(({ name }) => name)
  expect(names.slice(0, 4)).toEqual(['payments', 'exchanges', 'orders', 'authorizations'])
  expect(names).toEqual(
    expect.arrayContaining(['spending', 'tokens', 'approvals', 'chain_transactions', 'sent_messages']),
  )
  const ofProcess = names.filter((name) => /listing|peer|met_|measures|imported|process|roles|kv/.test(name))
  // Which version of a listing was signed last is known to all processes.
  expect(ofProcess).toEqual(['listing_versions'])
  expect((await ledgerTables()).filter(({ key }) => key.length === 0).map(({ name }) => name)).toEqual([
    'run_time',
    'revisions',
  ])
})

test('a target with a ledger is refused and left as it is', async () => {
  const [from, to] = [await ledger(1), await ledger(2)]
  const before = rows(to)
  await expect(copyLedger(from, to)).rejects.toMatchObject({
    code: 'LEDGER_NOT_EMPTY',
    message: expect.stringContaining('(payments, exchanges)'),
  })
  expect(rows(to)).toEqual(before)
  await checkFinished(to)
})

test('a copy that broke off is refused at the start, and made anew by the next copy', async () => {
  const [from, to] = [await ledger(3), openDatabase({ path: ':memory:' })]
  const broken: LedgerDatabase = {
    ...to,
    commit: (change) => {
      if (change.plain?.some(({ sql }) => sql.includes('INTO exchanges'))) throw new Error('the server went away')
      return to.commit(change)
    },
  }
  await expect(copyLedger(from, broken)).rejects.toMatchObject({
    code: 'LEDGER_COPY_FAILED',
    message: expect.stringContaining(
      'rows of exchanges from id 1 on cannot be stored in the target: the server went away',
    ),
  })
  await expect(checkFinished(to)).rejects.toMatchObject({ code: 'LEDGER_COPY_FAILED' })
  await copyLedger(from, to)
  expect(rows(to)).toEqual(rows(from))
})

test.each([
  ['an amount that changed', 'UPDATE payments SET amount = amount + 1 WHERE no = 2', /payments .*\(sums, digest\)/],
  ['a text that changed', "UPDATE exchanges SET input = 'x' WHERE id = 1", /exchanges .*\(digest\)/],
  ['a row that is missing', 'DELETE FROM exchanges WHERE id = 2', /exchanges .*\(rows, digest\)/],
])('%s is found', async (_, sql, message) => {
  const [from, to] = [await ledger(3), openDatabase({ path: ':memory:' })]
  const copied = ({ table }: { table: string }) => {
    if (table === 'workflows') to.run(sql)
  }
  await expect(copyLedger(from, to, { copied })).rejects.toMatchObject({
    code: 'LEDGER_COPY_FAILED',
    message: expect.stringMatching(message),
  })
})
