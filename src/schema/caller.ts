/** What a token of the API allows, each with all that stands before it. */
export const scopes = ['read', 'execute', 'spend', 'admin'] as const
export type Scope = (typeof scopes)[number]

export function permits(held: Scope, needed: Scope): boolean {
  return scopes.indexOf(held) >= scopes.indexOf(needed)
}

/** On whose behalf something is done. Without a token it is the operator's own. */
export type Caller = { scope: Scope; tokenId: string | undefined }
export const OPERATOR: Caller = { scope: 'admin', tokenId: undefined }

/**
 * Whose records a caller may see (D48): only its own for a token of `execute` or `spend`. Undefined: everybody's. The operator and
 * `admin` see all, and so does `read`, which makes nothing of its own.
 */
export function ownerSeen({ scope, tokenId }: Caller): string | undefined {
  return scope === 'execute' || scope === 'spend' ? tokenId : undefined
}

/** Whether a token may see what an agent did for a caller: undefined is the operator. */
export function isCallerSeen(callerId: string, owner: string | undefined): boolean {
  return owner === undefined || callerId === localCaller(owner) || callerId.startsWith(a2aCaller(owner, ''))
}

/** Who this node's own API is to its agents, beside peers, which are named by their DID. */
export const LOCAL_CALLER = 'local'

/** The caller that an agent of this node knows a principal by: each has a memory of its own (D48). */
export function localCaller(tokenId: string | undefined): string {
  return tokenId === undefined ? LOCAL_CALLER : `${LOCAL_CALLER}:${tokenId}`
}

/** Callers that came over A2A are known by this, their token, and the id of their conversation. */
export const A2A_CALLER = 'a2a:'

/** A conversation over A2A belongs to the principal that holds it (D48). */
export function a2aCaller(tokenId: string | undefined, contextId: string): string {
  return tokenId === undefined ? `${A2A_CALLER}${contextId}` : `${A2A_CALLER}${tokenId}/${contextId}`
}

/** Whether a caller is a principal of this node's own API. */
export function isLocalCaller(callerId: string): boolean {
  return callerId === LOCAL_CALLER || callerId.startsWith(`${LOCAL_CALLER}:`)
}

/** The token of this node's own API that a caller is; undefined: the operator, or a peer. */
export function ownerOfCaller(callerId: string): string | undefined {
  if (callerId.startsWith(`${LOCAL_CALLER}:`)) return callerId.slice(LOCAL_CALLER.length + 1)
  return callerId.startsWith(A2A_CALLER) ? /^([^/]+)\//.exec(callerId.slice(A2A_CALLER.length))?.[1] : undefined
}
