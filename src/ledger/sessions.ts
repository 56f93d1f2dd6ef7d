import { isoTime } from '../lib/clock.ts'
import { MarketError } from '../listings/market-error.ts'
import {
  a2aCaller,
  type Caller,
  isCallerSeen,
  isLocalCaller,
  LOCAL_CALLER,
  OPERATOR,
  ownerSeen,
} from '../schema/caller.ts'
import { RUN_CANCELED } from '../schema/limits.ts'
import type { Page } from '../schema/page.ts'
import type { SessionExchange, SessionRecord } from '../schema/session.ts'
import type { Order, Purchases } from '../store/purchases.ts'
import type { ExchangePayment, SessionSpan, SessionStore, StoredExchange } from '../store/sessions.ts'
import { paymentView, receivedBook, signedPayment } from './payment-view.ts'
import { sessionId } from './session-id.ts'

/** Exchanges shown per session in a list of sessions: the latest. */
const LISTED_EXCHANGES = 5

type SessionsDeps = {
  store: SessionStore
  purchases: Pick<Purchases, 'reservationOf'>
  /** True if the agent is on the market, here or elsewhere. */
  isKnown(agentId: string): boolean
}

type PageQuery = { limit: number; cursor?: string | undefined }

/**
 * The exchanges with an agent (D19): one session for each agent and caller.
 *
 * A caller is a peer, identified by the DID its connection proved, or this node's own API: `local`. Peers cannot read
 * sessions.
 */
export interface Sessions {
  /** Sessions of an agent, sorted by caller, each with its latest exchanges. @throws MarketError UNKNOWN_AGENT */
  list(agentId: string, query: PageQuery, reader?: Caller): Promise<Page<SessionRecord>>
  /**
   * One session with the latest exchanges before the cursor. `next` leads to earlier ones. @throws MarketError
   * UNKNOWN_SESSION
   */
  get(
    agentId: string,
    callerId: string,
    query: PageQuery,
    reader?: Caller,
  ): Promise<{ session: SessionRecord; next: string | undefined }>
}

export function createSessions({ store, purchases, isKnown }: SessionsDeps): Sessions {
  const ownExchange = async (order: Order): Promise<SessionExchange> => {
    const startedAt = order.startedAt ?? order.createdAt
    const reservation = await purchases.reservationOf(order.id)
    return {
      correlation_id: order.correlationId ?? order.id,
      input: order.task ?? '',
      output: order.output ?? null,
      ...(order.output === undefined && { error: order.error?.message ?? order.status }),
      ...(order.status === 'cancelled' && { canceled: true as const }),
      created_at: isoTime(startedAt),
      duration_ms: Math.max(0, order.updatedAt - startedAt),
      ...(reservation !== undefined && { payment: signedPayment(reservation) }),
    }
  }

  async function read(agentId: string, callerId: string, query: PageQuery, owner: string | undefined) {
    // Calls of this node to its own agents are stored as orders. Their failures exist only there.
    if (!isLocalCaller(callerId)) {
      const [span, page] = await Promise.all([store.span(agentId, callerId), store.exchanges(agentId, callerId, query)])
      const exchanges = page.items.map(peerExchange)
      return span && { session: recordOf(agentId, callerId, span, exchanges), next: page.next }
    }
    const token = callerId === LOCAL_CALLER ? owner : callerId.slice(LOCAL_CALLER.length + 1)
    const [span, page] = await Promise.all([store.ownSpan(agentId, token), store.ownExchanges(agentId, query, token)])
    const exchanges = await Promise.all(page.items.map(ownExchange))
    return span && { session: recordOf(agentId, callerId, span, exchanges), next: page.next }
  }

  /**
   * Callers with sessions: peers and A2A conversations. Calls over this node's own API belong to the session of
   * `local`.
   */
  async function callersOf(
    agentId: string,
    after: string,
    limit: number,
    owner: string | undefined,
  ): Promise<string[]> {
    const first = owner === undefined ? '' : a2aCaller(owner, '')
    let last = after < first ? first : after
    const found: string[] = []
    for (;;) {
      const page = await store.callers(agentId, last, limit)
      found.push(...page.filter((caller) => !isLocalCaller(caller) && isCallerSeen(caller, owner)))
      const isPast = owner !== undefined && page.some((caller) => !caller.startsWith(first))
      if (page.length < limit || found.length >= limit || isPast) return found.slice(0, limit)
      last = page.at(-1)!
    }
  }

  return {
    async list(agentId, { limit, cursor = '' }, reader = OPERATOR) {
      const owner = ownerSeen(reader)
      const [peers, ownSpan] = await Promise.all([
        callersOf(agentId, cursor, limit + 1, owner),
        cursor < LOCAL_CALLER ? store.ownSpan(agentId, owner) : undefined,
      ])
      const callers = [...peers, ...(ownSpan === undefined ? [] : [LOCAL_CALLER])].sort(byCodeUnits)
      if (callers.length === 0 && cursor === '' && !isKnown(agentId)) {
        throw new MarketError('UNKNOWN_AGENT', `no agent ${agentId} is known here, and nobody has called it`)
      }
      const shown = callers.slice(0, limit)
      const sessions = await Promise.all(
        shown.map((caller) => read(agentId, caller, { limit: LISTED_EXCHANGES }, owner)),
      )
      return {
        items: sessions.flatMap((found) => found?.session ?? []),
        next: callers.length > limit ? shown.at(-1) : undefined,
      }
    },
    async get(agentId, callerId, query, reader = OPERATOR) {
      const owner = ownerSeen(reader)
      const isSeen = callerId === LOCAL_CALLER || isCallerSeen(callerId, owner)
      const found = isSeen ? await read(agentId, callerId, query, owner) : undefined
      if (found !== undefined) return found
      throw new MarketError('UNKNOWN_SESSION', `${callerId} and agent ${agentId} have no session on this node`)
    },
  }
}

function recordOf(
  agentId: string,
  callerId: string,
  { createdAt, updatedAt }: SessionSpan,
  exchanges: SessionExchange[],
): SessionRecord {
  return {
    id: sessionId(agentId, callerId),
    agent_id: agentId,
    caller_id: callerId,
    created_at: isoTime(createdAt),
    updated_at: isoTime(updatedAt),
    exchanges,
  }
}

function peerExchange(exchange: StoredExchange): SessionExchange {
  return {
    correlation_id: exchange.correlationId,
    input: exchange.input,
    output: exchange.output ?? null,
    ...(exchange.error !== undefined && { error: exchange.error }),
    ...(exchange.error === RUN_CANCELED && { canceled: true as const }),
    created_at: isoTime(exchange.createdAt),
    duration_ms: exchange.durationMs,
    ...(exchange.payment !== undefined && {
      payment: {
        ...paymentView(exchange.payment),
        book: receivedBook({ ...exchange.payment, ran: true }),
        settlement: settlementOf(exchange.payment),
      },
    }),
  }
}

function settlementOf({ state }: ExchangePayment): 'settled' | 'pending' | 'voided' | 'failed' {
  if (state === 'authorized' || state === 'owed') return 'pending'
  return state === 'unsettled' ? 'failed' : state
}

/** Compares like the store's collation: by code units. */
function byCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
