import type { UnixMs } from '../lib/clock.ts'
import type { Scope } from '../schema/caller.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { all, lock, one, type Query, run, steps } from './query.ts'
import type { RowOf } from './row.ts'

/** An API token. Only a hash of its secret is stored. */
export type StoredToken = {
  id: string
  name: string
  scope: Scope
  /** SHA-256 of the whole token. */
  hash: Uint8Array
  /** In atomic units; undefined: the token has no budget limit. */
  budget: bigint | undefined
  perDay: bigint | undefined
  createdAt: UnixMs
  expiresAt: UnixMs | undefined
  revokedAt: UnixMs | undefined
}

/** A token with what it has spent or reserved, in atomic units: in total, and on one UTC day. */
export type TokenSpending = { token: StoredToken; total: bigint; today: bigint }

export interface TokenStore {
  /** False: there are `tokensMax` tokens already. */
  add(token: StoredToken, tokensMax: number): Promise<boolean>
  /** Adds a token, or gives the one with this id the budgets of `token`. A revoked one stays revoked. */
  keep(token: StoredToken): Promise<void>
  /** Returns a token, also if it is revoked or expired. */
  get(id: string): Promise<StoredToken | undefined>
  /** Returns a token and its spending on a UTC day, `2026-11-21`. */
  spending(id: string, day: string): Promise<TokenSpending | undefined>
  /** Every token and its spending, newest first. */
  list(day: string): Promise<TokenSpending[]>
  /** False: the token is unknown or was revoked before. */
  revoke(id: string, now: UnixMs): Promise<boolean>
}

type TokenRow = RowOf<StoredToken>
type SpendingRow = TokenRow & { total: string | null; today: string | null }

const COUNT = 'SELECT count(*) AS n FROM tokens WHERE revoked_at IS NULL'
const INSERT = `
  INSERT INTO tokens (id, name, scope, hash, budget, per_day, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
const KEEP = `${INSERT} ON CONFLICT (id) DO UPDATE SET budget = excluded.budget, per_day = excluded.per_day`
const COLUMNS = `
  id, name, scope, hash, budget, per_day AS perDay, created_at AS createdAt, expires_at AS expiresAt,
  revoked_at AS revokedAt`
/** The scope is the one of `placesOf` (spending.ts). Period '': all days. */
const SPENT = `SELECT CAST(amount AS TEXT) FROM spending WHERE scope = 'token ' || tokens.id AND period =`
const SELECT = `SELECT ${COLUMNS}, (${SPENT} '') AS total, (${SPENT} ?) AS today FROM tokens`
const REVOKE = 'UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL'

/** Returns a token, also if it is revoked or expired. */
export function tokenNamed(id: string): Query<StoredToken | undefined> {
  return one<TokenRow>(`SELECT ${COLUMNS} FROM tokens WHERE id = ?`, id).map((row) => row && fromRow(row))
}

export function createTokenStore(database: LedgerDatabase): TokenStore {
  return {
    add: (token, tokensMax) => database.commit(add(token, tokensMax)),
    async keep(token) {
      await database.commit(run(KEEP, ...valuesOf(token)))
    },
    get: (id) => database.query(tokenNamed(id)),
    async spending(id, day) {
      const row = await database.query(one<SpendingRow>(`${SELECT} WHERE id = ?`, day, id))
      return row && withSpending(row)
    },
    list: async (day) => (await database.query(all<SpendingRow>(`${SELECT} ORDER BY no DESC`, day))).map(withSpending),
    revoke: async (id, now) => (await database.commit(run(REVOKE, now, id))) === 1,
  }
}

function add(token: StoredToken, tokensMax: number): Query<boolean> {
  return steps(function* () {
    yield* lock('tokens')
    const { n } = (yield* one<{ n: number }>(COUNT))!
    if (n >= tokensMax) return false
    yield* run(INSERT, ...valuesOf(token))
    return true
  })
}

function valuesOf({ id, name, scope, hash, budget, perDay, createdAt, expiresAt }: StoredToken) {
  return [id, name, scope, hash, budget ?? null, perDay ?? null, createdAt, expiresAt ?? null] as const
}

function withSpending({ total, today, ...row }: SpendingRow): TokenSpending {
  return { token: fromRow(row), total: BigInt(total ?? 0), today: BigInt(today ?? 0) }
}

function fromRow(row: TokenRow): StoredToken {
  return {
    ...row,
    budget: row.budget === null ? undefined : BigInt(row.budget),
    perDay: row.perDay === null ? undefined : BigInt(row.perDay),
    expiresAt: row.expiresAt ?? undefined,
    revokedAt: row.revokedAt ?? undefined,
  }
}
