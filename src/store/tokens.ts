import type { UnixMs } from '../lib/clock.ts'
import type { Scope } from '../schema/caller.ts'
import type { Database } from './database.ts'
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

export interface TokenStore {
  /** False: there are `tokensMax` tokens already. */
  add(token: StoredToken, tokensMax: number): Promise<boolean>
  get(id: string): StoredToken | undefined
  /** Newest first. */
  list(): StoredToken[]
  /** False: the token is unknown or was revoked before. */
  revoke(id: string, now: UnixMs): Promise<boolean>
}

type TokenRow = RowOf<StoredToken>

const INSERT = `
  INSERT INTO tokens (id, name, scope, hash, budget, per_day, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

const SELECT = `
  SELECT id, name, scope, hash, budget, per_day AS perDay, created_at AS createdAt, expires_at AS expiresAt,
    revoked_at AS revokedAt
  FROM tokens`

export function createTokenStore(database: Database): TokenStore {
  return {
    add: (token, tokensMax) =>
      database.write(() => {
        const { n } = database.one<{ n: number }>('SELECT count(*) AS n FROM tokens WHERE revoked_at IS NULL')!
        if (n >= tokensMax) return false
        const { id, name, scope, hash, budget, perDay, createdAt, expiresAt } = token
        database.run(INSERT, id, name, scope, hash, budget ?? null, perDay ?? null, createdAt, expiresAt ?? null)
        return true
      }),
    get(id) {
      const row = database.one<TokenRow>(`${SELECT} WHERE id = ?`, id)
      return row && fromRow(row)
    },
    list: () => database.all<TokenRow>(`${SELECT} ORDER BY no DESC`).map(fromRow),
    revoke: (id, now) =>
      database.write(
        () =>
          database.run('UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL', now, id).changes === 1,
      ),
  }
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
