import { openDatabase } from '../database.ts'

/** A table of the ledger, as the schema has it. Both engines have the same tables and columns. */
export type LedgerTable = {
  name: string
  columns: readonly string[]
  /** The columns of the primary key, in order. Empty: the table has one row, in every ledger. */
  key: readonly string[]
  /** The key, if it is a number that the database gives. */
  number: string | undefined
  /** Columns that may hold long texts or bytes. */
  long: readonly string[]
  /** Columns with amounts in atomic units, whose sums are compared. */
  amounts: readonly string[]
}

/**
 * What belongs to one process: it stays in `stoa.db`. Everything else is the ledger. No process that `processes` and
 * `roles` name runs on the copy, so its work there is left behind and taken over. The table `changes`, which tells running
 * processes what others did, is in PostgreSQL alone.
 */
const LOCAL =
  /^(sqlite_.*|listings|peer_data|met_listings|name_keys|market_words|listing_text.*|agent_measures|imported_agents|processes|roles)$/
type ColumnRow = { name: string; type: string; pk: number }

/** The tables of the ledger but `kv`, in an order in which each comes after those it refers to. */
export async function ledgerTables(): Promise<LedgerTable[]> {
  const schema = openDatabase({ path: ':memory:' })
  try {
    const names = schema
      .all<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
      .map(({ name }) => name)
      .filter((name) => !LOCAL.test(name) && name !== 'kv')
    return names.map((name) => tableOf(name, schema.all<ColumnRow>(`PRAGMA table_info (${name})`)))
  } finally {
    await schema.close()
  }
}

function tableOf(name: string, rows: readonly ColumnRow[]): LedgerTable {
  const key = rows.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk)
  return {
    name,
    columns: rows.map((row) => row.name),
    key: key.map((row) => row.name),
    number: key.length === 1 && key[0]!.type === 'INTEGER' ? key[0]!.name : undefined,
    long: rows.filter(({ type }) => type === 'TEXT' || type === 'BLOB').map((row) => row.name),
    amounts: rows.filter((row) => row.type === 'INTEGER' && /^(amount|price)$/.test(row.name)).map((row) => row.name),
  }
}
