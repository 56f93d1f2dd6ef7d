import { createHash, timingSafeEqual } from 'node:crypto'
import { type Clock, isoTime, type UnixMs, utcDay } from '../lib/clock.ts'
import { MarketError } from '../listings/market-error.ts'
import type { Caller } from '../schema/caller.ts'
import type { CreatedToken, CreateToken, TokenRecord } from '../schema/token.ts'
import type { StoredToken, TokenSpending, TokenStore } from '../store/tokens.ts'
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
}

export interface Tokens {
  /** @throws MarketError TOKENS_TOO_MANY */
  create(wanted: CreateToken): Promise<CreatedToken>
  list(): Promise<TokenRecord[]>
  /** Returns a token, also if it is revoked or expired. */
  record(id: string): Promise<TokenRecord | undefined>
  /** @throws MarketError UNKNOWN_TOKEN */
  revoke(id: string): Promise<TokenRecord>
  /** Returns the caller that a token text belongs to. Undefined: unknown, revoked or expired. */
  identify(text: string): Promise<Caller | undefined>
  /** The token that a part of this node spends with, made or changed to this daily budget. It has no text to send. */
  ofPart(part: { id: string; name: string; perDay: bigint }): Promise<Caller>
  /** Returns the token if it is valid: neither revoked nor expired. */
  findValid(id: string): Promise<StoredToken | undefined>
}

export function createTokens({ clock, store, random }: TokensDeps): Tokens {
  const day = () => utcDay(clock.now())
  const record = async (id: string) => {
    const found = await store.spending(id, day())
    return found && view(found)
  }

  function view({ token, total, today }: TokenSpending): TokenRecord {
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
      return { ...view({ token, total: 0n, today: 0n }), token: text }
    },
    list: async () => (await store.list(day())).map(view),
    record,
    async revoke(id) {
      await store.revoke(id, clock.now())
      const revoked = await record(id)
      if (revoked === undefined) throw new MarketError('UNKNOWN_TOKEN', `there is no token ${id}: see stoa token list`)
      return revoked
    },
    async identify(text) {
      const id = /^stoa_([A-Za-z0-9_-]{12})\.[A-Za-z0-9_-]{43}$/.exec(text)?.[1]
      const token = id === undefined ? undefined : await store.get(id)
      // Takes the same time for an unknown token, so that timing reveals nothing but yes or no.
      const isIt = timingSafeEqual(digest(text), token?.hash ?? NOBODY)
      return isIt && token !== undefined && isValid(token, clock.now())
        ? { scope: token.scope, tokenId: token.id }
        : undefined
    },
    async ofPart({ id, name, perDay }) {
      const caller: Caller = { scope: 'spend', tokenId: id }
      // Every call asks for this token, and a write waits for the disk.
      const known = await store.get(id)
      if (known !== undefined && known.perDay === perDay && known.budget === undefined) return caller
      // No text has this hash, and `identify` refuses the id.
      const hash = random(SECRET_BYTES)
      const ends = { expiresAt: undefined, revokedAt: undefined }
      await store.keep({ id, name, scope: 'spend', hash, budget: undefined, perDay, createdAt: clock.now(), ...ends })
      return caller
    },
    async findValid(id) {
      const token = await store.get(id)
      return token !== undefined && isValid(token, clock.now()) ? token : undefined
    },
  }
}

/** True if a token is valid: neither revoked nor expired. */
export function isValid({ revokedAt, expiresAt }: StoredToken, now: UnixMs): boolean {
  return revokedAt === undefined && (expiresAt === undefined || now < expiresAt)
}

function digest(text: string): Uint8Array {
  return createHash('sha256').update(text).digest()
}
