import { type Finding, fail, ok, skip, warn } from '../../lib/finding.ts'
import { serverName } from '../../store/server-ledger.ts'
import { StoreError } from '../../store/store-error.ts'
import type { Check } from './check.ts'

/** A paid call waits for several round trips. */
const LATENCY_MS_MAX = 20
const PAGE = 'docs/operations.md, PostgreSQL'

/** The PostgreSQL database that keeps the ledger. Looks without changing anything, and without taking the ledger. */
export const databaseCheck: Check = {
  id: 'database',
  title: 'Database',
  async run({ secrets, running }) {
    const { database } = secrets
    if (running !== undefined) return skip('the running node says nothing of it')
    if (database === undefined) return skip('the ledger is in stoa.db')
    const { inspectPostgres } = await import('../../store/postgres/inspect-postgres.ts')
    try {
      return judged(serverName(database.url), await inspectPostgres(database.url))
    } catch (error) {
      if (error instanceof StoreError) return fail(error.message, fixOf(error.code))
      throw error
    }
  },
}

type Facts = Awaited<ReturnType<typeof import('../../store/postgres/inspect-postgres.ts')['inspectPostgres']>>

function judged(server: string, facts: Facts): Finding | Finding[] {
  const { version, latencyMs, isEncrypted, isLocal, schema, holder, mayCreate, isReadOnly } = facts
  const findings: Finding[] = []
  if (isReadOnly)
    findings.push(
      fail(`${server} takes no changes`, 'name the primary in DATABASE_URL, or unset default_transaction_read_only'),
    )
  if (schema.found !== undefined && schema.found > schema.known) {
    findings.push(
      fail(`a later version of stoa wrote the ledger (schema ${schema.found}, not ${schema.known})`, 'upgrade stoa'),
    )
  }
  if (!mayCreate && (schema.found ?? 0) < schema.known) {
    const fix = `GRANT CREATE, USAGE ON SCHEMA public TO the user of DATABASE_URL (${PAGE})`
    findings.push(fail(`the user may not create the tables of the ledger in ${server}`, fix))
  }
  if (holder !== undefined) {
    const until = `its lease lasts ${Math.ceil(holder.ms / 1000)} s if it is dead`
    findings.push(
      warn(`${holder.place} has the ledger alone`, `a node started here waits until that one is gone; ${until}`),
    )
  }
  if (!isEncrypted && !isLocal) {
    findings.push(
      warn(`the connection to ${server} is not encrypted`, `add sslmode=verify-full to DATABASE_URL (${PAGE})`),
    )
  }
  const latency = `${latencyMs.toFixed(latencyMs < 10 ? 1 : 0)} ms`
  if (latencyMs > LATENCY_MS_MAX) {
    findings.push(
      warn(`${server} is ${latency} away: each paid call waits for several answers`, 'run the node near the database'),
    )
  }
  if (findings.length > 0) return findings
  const ledger = schema.found === undefined ? 'no ledger yet' : `schema ${schema.found}`
  return ok(`${server}, PostgreSQL ${version}, ${ledger}, ${latency} away${isEncrypted ? ', TLS' : ''}`)
}

function fixOf(code: StoreError['code']): string {
  if (code === 'STORE_AWAY') return 'see that PostgreSQL runs, and that this machine may connect to it'
  return `correct what is named, then look again (${PAGE})`
}
