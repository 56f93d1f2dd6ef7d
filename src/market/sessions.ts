import { isoTime } from '../lib/clock.ts'
import { LOCAL_CALLER } from '../schema/caller.ts'
import type { Page } from '../schema/page.ts'
import type { SessionExchange, SessionRecord } from '../schema/session.ts'
import type { Order, Purchases } from '../store/purchases.ts'
import type { ExchangePayment, SessionSpan, SessionStore, StoredExchange } from '../store/sessions.ts'
import { MarketError } from './market-error.ts'
import { paymentView, signedPayment } from './payment-view.ts'
import { sessionId } from './session-id.ts'

/** How many exchanges of a session a list of sessions shows: the latest. */
const LISTED_EXCHANGES = 5

export type SessionsDeps = {
  store: SessionStore
  purchases: Pick<Purchases, 'reservationOf'>
  /** Whether the agent is on the market, here or elsewhere. */
  isKnown(agentId: string): boolean
}

type PageQuery = { limit: number; cursor?: string | undefined }

/**
 * Who said what to an agent (D19): one session for each agent and caller.
 *
 * Callers are peers, by the DID their connection proved, and this node's own API: `local`. Peers read none of this.
 */
export interface Sessions {
  /** By the name of the caller, each with its latest exchanges. @throws MarketError UNKNOWN_AGENT */
  list(agentId: string, query: PageQuery): Page<SessionRecord>
  /** With the latest exchanges before the cursor; `next` leads to earlier ones. @throws MarketError UNKNOWN_SESSION */
  get(agentId: string, callerId: string, query: PageQuery): { session: SessionRecord; next: string | undefined }
}

export function createSessions({ store, purchases, isKnown }: SessionsDeps): Sessions {
  const ownExchange = (order: Order): SessionExchange => {
    const startedAt = order.startedAt ?? order.createdAt
    const reservation = purchases.reservationOf(order.id)
    return {
      correlation_id: order.correlationId ?? order.id,
      input: order.task ?? '',
      output: order.output ?? null,
      ...(order.output === undefined && { error: order.error?.message ?? order.status }),
      created_at: isoTime(startedAt),
      duration_ms: Math.max(0, order.updatedAt - startedAt),
      ...(reservation !== undefined && { payment: signedPayment(reservation) }),
    }
  }

  function read(agentId: string, callerId: string, query: PageQuery) {
    // What this node asks of its own agents is an order like any other, and failures stand only there.
    const isOwn = callerId === LOCAL_CALLER
    const span = isOwn ? store.ownSpan(agentId) : store.span(agentId, callerId)
    if (span === undefined) return undefined
    const { items, next } = isOwn
      ? mapPage(store.ownExchanges(agentId, query), ownExchange)
      : mapPage(store.exchanges(agentId, callerId, query), peerExchange)
    return { session: recordOf(agentId, callerId, span, items), next }
  }

  return {
    list(agentId, { limit, cursor = '' }) {
      const peers = store.callers(agentId, cursor, limit + 2).filter((caller) => caller !== LOCAL_CALLER)
      const own = cursor < LOCAL_CALLER && store.ownSpan(agentId) !== undefined ? [LOCAL_CALLER] : []
      const callers = [...peers, ...own].sort(byCodeUnits)
      if (callers.length === 0 && cursor === '' && !isKnown(agentId)) {
        throw new MarketError('UNKNOWN_AGENT', `no agent ${agentId} is known here, and nobody has called it`)
      }
      const items = callers.slice(0, limit)
      return {
        items: items.flatMap((caller) => read(agentId, caller, { limit: LISTED_EXCHANGES })?.session ?? []),
        next: callers.length > limit ? items.at(-1) : undefined,
      }
    },
    get(agentId, callerId, query) {
      const found = read(agentId, callerId, query)
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
    created_at: isoTime(exchange.createdAt),
    duration_ms: exchange.durationMs,
    ...(exchange.payment !== undefined && {
      payment: { ...paymentView(exchange.payment), settlement: settlementOf(exchange.payment) },
    }),
  }
}

function settlementOf({ state }: ExchangePayment): 'settled' | 'pending' | 'voided' | 'failed' {
  if (state === 'authorized' || state === 'owed') return 'pending'
  return state === 'unsettled' ? 'failed' : state
}

function mapPage<T, U>({ items, next }: Page<T>, map: (item: T) => U): Page<U> {
  return { items: items.map(map), next }
}

/** As the store compares names. */
function byCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
