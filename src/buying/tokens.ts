import { createHash, timingSafeEqual } from 'node:crypto'
import { type Clock, isoTime } from '../lib/clock.ts'
import { MarketError } from '../listings/market-error.ts'
import type { Caller } from '../schema/caller.ts'
import type { CreatedToken, CreateToken, TokenRecord } from '../schema/token.ts'
import type { StoredToken, TokenStore } from '../store/tokens.ts'
import { amountsOf } from './budget-rules.ts'

/** Tokens stored, revoked tokens included: orders refer to them. */
const TOKENS_MAX = 1_000
const SECRET_BYTES = 32
const ID_BYTES = 9
const NOBODY = Buffer.alloc(32)

type TokensDeps = {
  clock: Clock
  store: TokenStore
  random(length: number): Uint8Array
  /** What a token has spent or reserved, in atomic units: in total, and on the UTC day of `now`. */
  spentBy(tokenId: string, now: number): { total: bigint; today: bigint }
}

export interface Tokens {
  /** @throws MarketError TOKENS_TOO_MANY */
  create(wanted: CreateToken): Promise<CreatedToken>
  list(): TokenRecord[]
  /** Returns a token, also if it is revoked or expired. */
  record(id: string): TokenRecord | undefined
  /** @throws MarketError UNKNOWN_TOKEN */
  revoke(id: string): Promise<TokenRecord>
  /** Returns the caller that a token text belongs to. Undefined: unknown, revoked or expired. */
  identify(text: string): Caller | undefined
  /** Returns the token if it is valid: neither revoked nor expired. */
  held(id: string): StoredToken | undefined
}

export function createTokens({ clock, store, random, spentBy }: TokensDeps): Tokens {
  function isHeld({ revokedAt, expiresAt }: StoredToken): boolean {
    return revokedAt === undefined && (expiresAt === undefined || clock.now() < expiresAt)
  }

  function view(token: StoredToken): TokenRecord {
    const { total, today } = spentBy(token.id, clock.now())
    const { id, name, scope, createdAt, expiresAt, revokedAt } = token
    return {
      id,
      name,
      scope,
      ...amountsOf('budget', token.budget),
      ...amountsOf('per_day', token.perDay),
      ...amountsOf('spent', total),
      ...amountsOf('spent_today', today),
      created_at: isoTime(createdAt),
      ...(expiresAt !== undefined && { expires_at: isoTime(expiresAt) }),
      ...(revokedAt !== undefined && { revoked_at: isoTime(revokedAt) }),
    }
  }

  return {
    async create({ name, scope, budget, per_day: perDay, expires_in_seconds: seconds }) {
      const now = clock.now()
      const id = Buffer.from(random(ID_BYTES)).toString('base64url')
      const text = `stoa_${id}.${Buffer.from(random(SECRET_BYTES)).toString('base64url')}`
      const expiresAt = seconds === undefined ? undefined : now + seconds * 1000
      const hash = digest(text)
      const token = { id, name, scope, hash, budget, perDay, createdAt: now, expiresAt, revokedAt: undefined }
      if (!(await store.add(token, TOKENS_MAX))) {
        throw new MarketError('TOKENS_TOO_MANY', `there are ${TOKENS_MAX} tokens: revoke some with stoa token revoke`)
      }
      return { ...view(token), token: text }
    },
    list: () => store.list().map(view),
    record(id) {
      const token = store.get(id)
      return token && view(token)
    },
    async revoke(id) {
      await store.revoke(id, clock.now())
      const token = store.get(id)
      if (token === undefined) throw new MarketError('UNKNOWN_TOKEN', `there is no token ${id}: see stoa token list`)
      return view(token)
    },
    identify(text) {
      const id = /^stoa_([A-Za-z0-9_-]{12})\.[A-Za-z0-9_-]{43}$/.exec(text)?.[1]
      const token = id === undefined ? undefined : store.get(id)
      // Takes the same time for an unknown token, so that timing reveals nothing but yes or no.
      const isIt = timingSafeEqual(digest(text), token?.hash ?? NOBODY)
      return isIt && token !== undefined && isHeld(token) ? { scope: token.scope, tokenId: token.id } : undefined
    },
    held(id) {
      const token = store.get(id)
      return token !== undefined && isHeld(token) ? token : undefined
    },
  }
}

function digest(text: string): Uint8Array {
  return createHash('sha256').update(text).digest()
}
