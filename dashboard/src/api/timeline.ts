import { daySpan } from '../day-span.ts'
import type { Pages } from './pages.ts'
import { usePages } from './pages.ts'
import type { Execution, OrderRecord, WorkflowRecord } from './types.ts'

export type Kind = 'execution' | 'order' | 'workflow'
/** One event on this node, from any of the lists. */
export type Happening =
  | { kind: 'execution'; key: string; at: string; record: Execution }
  | { kind: 'order'; key: string; at: string; record: OrderRecord }
  | { kind: 'workflow'; key: string; at: string; record: WorkflowRecord }

const PAGE_ITEMS = 50
/** Characters kept of a task. A row shows one line. */
const TEXT_KEPT = 200
const byId = ({ id }: { id: string }) => id

/** The filters of the timeline. */
export type Sought = {
  q?: string | undefined
  failed?: boolean | undefined
  agentId?: string | undefined
  /** `2026-11-22` in the viewer's time zone. */
  day?: string | undefined
}

/** Merges three paged lists into one, newest first. */
export function useTimeline(kinds: readonly Kind[], sought: Sought = {}): Pages<Happening> {
  const { q, agentId, failed, day } = sought
  const query = { q, ...daySpan(day), limit: PAGE_ITEMS }
  const failedOnly = failed === true ? 'failed' : undefined
  const executions = usePages<Execution>(
    '/executions',
    { ...query, agent_id: agentId, failed: failed === true ? 'true' : undefined },
    {
      id: byId,
      topics: ['payment', 'status'],
      slim: ({ output: _, ...rest }) => ({ ...rest, input: rest.input.slice(0, TEXT_KEPT) }),
    },
  )
  const orders = usePages<OrderRecord>(
    '/orders',
    { ...query, agent_id: agentId, status: failedOnly },
    {
      id: byId,
      topics: ['order'],
      slim: ({ output: _, ...rest }) => ({ ...rest, task: rest.task?.slice(0, TEXT_KEPT) ?? null }),
    },
  )
  const workflows = usePages<WorkflowRecord>(
    '/workflows',
    { ...query, status: failedOnly },
    { id: byId, topics: ['workflow'] },
  )
  const sources = [
    { kind: 'execution' as const, pages: executions },
    { kind: 'order' as const, pages: orders },
    { kind: 'workflow' as const, pages: workflows },
  ].filter(({ kind }) => kinds.includes(kind))

  // A list is known only to the end of its loaded parts. Items beyond that time must wait for the other lists.
  const known = sources
    // A search may have found nothing yet. Items that it finds later are inserted at their place.
    .filter(({ pages }) => pages.more && pages.items.length > 0)
    .map(({ pages }) => pages.items.at(-1)!.created_at)
    .sort()
    .at(-1)
  const all = sources
    .flatMap(({ kind, pages }) =>
      pages.items.map((record) => ({ kind, key: kind + record.id, at: record.created_at, record }) as Happening),
    )
    .filter(({ at }) => known === undefined || at >= known)
    .sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0))

  return {
    items: all,
    error: sources.map(({ pages }) => pages.error).find((error) => error !== undefined),
    loading: sources.some(({ pages }) => pages.loading),
    more: sources.some(({ pages }) => pages.more),
    loadMore() {
      // This list is the one that limits the others.
      for (const { pages } of sources) {
        const last = pages.items.at(-1)
        if (pages.more && (last === undefined || last.created_at === known)) pages.loadMore()
      }
    },
    failed: sources.map(({ pages }) => pages.failed).find((error) => error !== undefined),
    retryMore() {
      for (const { pages } of sources) if (pages.failed !== undefined) pages.retryMore()
    },
    reload() {
      for (const { pages } of sources) pages.reload()
    },
  }
}
