/** What an API token allows. Each scope includes all scopes before it. */
export const scopes = ['read', 'execute', 'spend', 'admin'] as const
export type Scope = (typeof scopes)[number]

/** What a token of each scope may do, for people. */
export const scopeTexts: Readonly<Record<Scope, string>> = {
  read: 'may only look',
  execute: 'may also run own and free agents',
  spend: 'may also pay, within the budget of the token',
  admin: 'may do everything',
}

export function permits(held: Scope, needed: Scope): boolean {
  return scopes.indexOf(held) >= scopes.indexOf(needed)
}

/** The principal on whose behalf something is done. Without a token it is the operator. */
export type Caller = { scope: Scope; tokenId: string | undefined }
export const OPERATOR: Caller = { scope: 'admin', tokenId: undefined }
/**
 * Strangers at the public listener. They share a name, because they prove none: what belongs to one of them is found by an
 * id that nobody can guess, and is never listed. No token has this id.
 */
export const STRANGER: Caller = { scope: 'execute', tokenId: 'strangers' }
const SECRET_STRANGER = `${STRANGER.tokenId}:`

/** A stranger that proves by a secret of its own that it is the same as before (ADR-46). `digest`: of that secret. */
export function strangerWith(digest: string): Caller {
  return { ...STRANGER, tokenId: SECRET_STRANGER + digest }
}

/** The digest of a stranger's secret. Undefined: the operator, a token, or a stranger without a secret. */
export function strangerDigest(tokenId: string | undefined): string | undefined {
  return tokenId?.startsWith(SECRET_STRANGER) === true ? tokenId.slice(SECRET_STRANGER.length) : undefined
}

/** True for strangers, with a secret or without. */
export function isStranger({ tokenId }: Pick<Caller, 'tokenId'>): boolean {
  return tokenId === STRANGER.tokenId || strangerDigest(tokenId) !== undefined
}

/**
 * The token whose records a caller may see (D48); undefined: all records. Tokens of `execute` and `spend` see only
 * their own. The operator, `admin` and `read` see all: `read` creates no records.
 */
export function ownerSeen({ scope, tokenId }: Caller): string | undefined {
  return scope === 'execute' || scope === 'spend' ? tokenId : undefined
}

/** True if a token may see what an agent did for a caller. `owner` undefined: the operator. */
export function isCallerSeen(callerId: string, owner: string | undefined): boolean {
  return owner === undefined || callerId === localCaller(owner) || callerId.startsWith(a2aCaller(owner, ''))
}

/** The caller name of this node's own API. Peers are named by their DID. */
export const LOCAL_CALLER = 'local'

/** The caller name of a principal at this node's agents: each principal has its own memory (D48). */
export function localCaller(tokenId: string | undefined): string {
  return tokenId === undefined ? LOCAL_CALLER : `${LOCAL_CALLER}:${tokenId}`
}

/** Prefix of callers over A2A, followed by their token and the id of their conversation. */
export const A2A_CALLER = 'a2a:'

/** The caller name of a conversation over A2A. The conversation belongs to its principal (D48). */
export function a2aCaller(tokenId: string | undefined, contextId: string): string {
  return tokenId === undefined ? `${A2A_CALLER}${contextId}` : `${A2A_CALLER}${tokenId}/${contextId}`
}

/** True if a caller is a principal of this node's own API. */
export function isLocalCaller(callerId: string): boolean {
  return callerId === LOCAL_CALLER || callerId.startsWith(`${LOCAL_CALLER}:`)
}

/** The API token behind a caller; undefined: the operator, or a peer. All strangers count as one, because secrets are free. */
export function ownerOfCaller(callerId: string): string | undefined {
  if (callerId.startsWith(`${LOCAL_CALLER}:`)) return callerId.slice(LOCAL_CALLER.length + 1)
  if (!callerId.startsWith(A2A_CALLER)) return undefined
  const tokenId = /^([^/]+)\//.exec(callerId.slice(A2A_CALLER.length))?.[1]
  return isStranger({ tokenId }) ? STRANGER.tokenId : tokenId
}
