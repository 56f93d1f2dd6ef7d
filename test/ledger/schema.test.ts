import { expect, onTestFinished, test } from 'vitest'
import { openDatabase } from '../../src/store/database.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { all } from '../../src/store/query.ts'
import { createTestDatabase } from '../support/test-postgres.ts'

/** What belongs to a process alone, and stays in SQLite; and what only PostgreSQL needs. */
const LOCAL =
  /^(sqlite_.*|listings|peer_data|met_listings|name_keys|market_words|listing_text.*|agent_measures|imported_agents|processes|roles)$/
/** Of one challenge there is one payment. On SQLite one process claims at a time, and looks first. */
const UNIQUE_HERE = 'payments_by_challenge unique partial'
const OWN = ['schema_version', 'processes', 'roles', 'changes', 'locks']
const TYPES: Record<string, string> = { INTEGER: 'bigint', TEXT: 'text', BLOB: 'bytea' }

type Column = { name: string; type: string; required: boolean; fallback: string | null; key: number }
type Tables = Record<string, { columns: Column[]; indices: string[]; states: string[]; refers: string[] }>

test('the ledger has the same tables, columns, keys, rules and indices on both engines', async () => {
  const [sqlite, postgres] = await Promise.all([sqliteTables(), postgresTables()])
  expect(Object.keys(postgres)).toEqual(Object.keys(sqlite))
  for (const [name, table] of Object.entries(sqlite)) expect({ name, ...postgres[name] }).toEqual({ name, ...table })
})

async function sqliteTables(): Promise<Tables> {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  const tables: Tables = {}
  const rows = database.all<{ name: string; sql: string }>("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
  for (const { name, sql } of rows.filter(({ name }) => !LOCAL.test(name)).toSorted(byName)) {
    const columns = database.all<{
      name: string
      type: string
      notnull: number
      dflt_value: string | null
      pk: number
    }>(`PRAGMA table_info (${name})`)
    tables[name] = {
      columns: columns.map((column) => ({
        name: column.name,
        type: TYPES[column.type]!,
        required: column.notnull === 1 || column.pk > 0,
        fallback: column.dflt_value?.replaceAll("'", '') ?? null,
        key: column.pk,
      })),
      indices: database
        .all<{ name: string; unique: number; origin: string }>(`PRAGMA index_list (${name})`)
        .filter(({ origin }) => origin === 'c')
        .map((index) => {
          const sql = database.one<{ sql: string }>('SELECT sql FROM sqlite_schema WHERE name = ?', index.name)!.sql
          return `${index.name}${index.unique === 1 ? ' unique' : ''}${/\bWHERE\b/.test(sql) ? ' partial' : ''}`
        })
        .toSorted(),
      states: statesOf(sql),
      refers: database
        .all<{ from: string; table: string; to: string }>(`PRAGMA foreign_key_list (${name})`)
        .map(({ from, table, to }) => `${from} ${table} ${to}`),
    }
  }
  return tables
}

const COLUMNS = `SELECT c.relname AS tab, a.attname AS name, format_type(a.atttypid, -1) AS type, a.attnotnull AS required,
    pg_get_expr(d.adbin, d.adrelid) AS fallback, coalesce(array_position(i.indkey::int2[], a.attnum), -1) + 1 AS key
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
  WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY c.relname COLLATE "C", a.attnum`
const INDICES = `SELECT t.relname AS tab, c.relname || CASE WHEN i.indisunique THEN ' unique' ELSE '' END
    || CASE WHEN i.indpred IS NOT NULL THEN ' partial' ELSE '' END AS name
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
  WHERE t.relnamespace = 'public'::regnamespace AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = c.oid)
  ORDER BY c.relname COLLATE "C"`
const RULES = `SELECT conrelid::regclass::text AS tab, contype::text AS type, pg_get_constraintdef(oid) AS rule
  FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype IN ('c', 'f') ORDER BY oid`

async function postgresTables(): Promise<Tables> {
  const database = await createTestDatabase()
  const ledger = await openPostgres({ address: database.address() })
  onTestFinished(async () => {
    await ledger.close()
    await database.drop()
  })
  const tables: Tables = {}
  type Row = Omit<Column, 'required'> & { tab: string; required: number }
  for (const { tab, required, fallback, ...column } of await ledger.query(all<Row>(COLUMNS))) {
    if (OWN.includes(tab)) continue
    tables[tab] ??= { columns: [], indices: [], states: [], refers: [] }
    const value = fallback === null ? null : /^'?([^':]*)'?/.exec(fallback)![1]!
    tables[tab].columns.push({ ...column, required: required === 1, fallback: value })
  }
  for (const { tab, name } of await ledger.query(all<{ tab: string; name: string }>(INDICES))) {
    tables[tab]?.indices.push(name === UNIQUE_HERE ? name.replace(' unique', '') : name)
  }
  for (const { tab, type, rule } of await ledger.query(all<{ tab: string; type: string; rule: string }>(RULES))) {
    const refers = /FOREIGN KEY \((\w+)\) REFERENCES (\w+)\((\w+)\)/.exec(rule)
    if (type === 'f') tables[tab]?.refers.push(refers!.slice(1).join(' '))
    else tables[tab]?.states.push(...statesOf(rule))
  }
  return tables
}

/** The words that a column may hold. */
function statesOf(sql: string): string[] {
  const rules = sql.match(/CHECK \(.*\)/g) ?? []
  return rules.flatMap((rule) => (rule.match(/'(\w+)'/g) ?? []).map((word) => word.slice(1, -1)))
}

function byName(a: { name: string }, b: { name: string }): number {
  return a.name < b.name ? -1 : 1
}
