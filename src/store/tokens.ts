import type { UnixMs } from '../lib/clock.ts'
import type { Scope } from '../schema/caller.ts'
import type { Database } from './database.ts'

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

export interface TokenStore {
  /** False: there are `tokensMax` tokens already. */
  add(token: StoredToken, tokensMax: number): Promise<boolean>
  get(id: string): StoredToken | undefined
  /** Newest first. */
  list(): StoredToken[]
  /** False: the token is unknown or was revoked before. */
  revoke(id: string, now: UnixMs): Promise<boolean>
}

type TokenRow = {
  id: string
  name: string
  scope: Scope
  hash: Uint8Array
  budget: number | null
  per_day: number | null
  created_at: number
  expires_at: number | null
  revoked_at: number | null
}

const INSERT = `
  INSERT INTO tokens (id, name, scope, hash, budget, per_day, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

export function createTokenStore(database: Database): TokenStore {
  return {
    add: (token, tokensMax) =>
      database.write(() => {
        const { n } = database.prepare('SELECT count(*) AS n FROM tokens WHERE revoked_at IS NULL').get() as {
          n: number
        }
        if (n >= tokensMax) return false
        const { id, name, scope, hash, budget, perDay, createdAt, expiresAt } = token
        database
          .prepare(INSERT)
          .run(id, name, scope, hash, budget ?? null, perDay ?? null, createdAt, expiresAt ?? null)
        return true
      }),
    get(id) {
      const row = database.prepare('SELECT * FROM tokens WHERE id = ?').get(id)
      return row === undefined ? undefined : fromRow(row as unknown as TokenRow)
    },
    list: () => (database.prepare('SELECT * FROM tokens ORDER BY no DESC').all() as unknown as TokenRow[]).map(fromRow),
    revoke: (id, now) =>
      database.write(
        () =>
          database.prepare('UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL').run(now, id)
            .changes === 1,
      ),
  }
}

function fromRow(row: TokenRow): StoredToken {
  return {
    id: row.id,
    name: row.name,
    scope: row.scope,
    hash: row.hash,
    budget: row.budget === null ? undefined : BigInt(row.budget),
    perDay: row.per_day === null ? undefined : BigInt(row.per_day),
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
  }
}
