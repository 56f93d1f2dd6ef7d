import { daySpan } from '../day-span.ts'
import type { Pages } from './pages.ts'
import { usePages } from './pages.ts'
import type { Execution, OrderRecord, WorkflowRecord } from './types.ts'

export type Kind = 'execution' | 'order' | 'workflow'
/** One thing that happened on this node, whichever list it stands in. */
export type Happening =
  | { kind: 'execution'; key: string; at: string; record: Execution }
  | { kind: 'order'; key: string; at: string; record: OrderRecord }
  | { kind: 'workflow'; key: string; at: string; record: WorkflowRecord }

const PAGE_ITEMS = 50
/** Of a task: a row has room for a line of it. */
const TEXT_KEPT = 200
const byId = ({ id }: { id: string }) => id

/** What of it is looked for. */
export type Sought = {
  q?: string | undefined
  failed?: boolean | undefined
  agentId?: string | undefined
  /** `2026-11-22`, where whoever looks lives. */
  day?: string | undefined
}

/** Three lists, each newest first and in parts, as one. */
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

  // Beyond the end of what a list has told so far, another list's items may not be the next ones.
  const known = sources
    // A search may have looked at much and found nothing yet: what it finds later takes its place then.
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
      // The list that holds the others back.
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
