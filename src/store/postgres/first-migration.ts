import { nodeTables } from './node-tables.ts'
import { tradeTables } from './trade-tables.ts'

/**
 * The ledger's tables as the migrations of SQLite leave them (../migrations.ts), with the same names of tables, columns
 * and indices. Others' listings, peers and measures are not of the ledger: they stay in SQLite beside the process.
 *
 * Texts are compared by their bytes, as in SQLite. A column that SQLite compares without regard to case has `lower(…)` in
 * its index. Where SQLite counts rows by itself, PostgreSQL does too, and takes a number that is given (`stoa ledger copy`).
 */
export const firstMigration = `${tradeTables}${nodeTables}`
