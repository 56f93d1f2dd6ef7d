import { useEffect, useRef, useState } from 'react'
import { type Page, page, type Query, queryText } from './client.ts'
import type { Topic } from './live.ts'
import { useResource } from './resource.ts'

const none: never[] = []

/** A list that the API returns in parts. */
export type Pages<T> = {
  items: readonly T[]
  error: Error | undefined
  /** True until the first part arrives. */
  loading: boolean
  more: boolean
  /** Does nothing after a part has failed, so that scrolling does not flood the node with requests. */
  loadMore(): void
  failed: Error | undefined
  retryMore(): void
  reload(): void
}

/** Keeps the first part up to date. Later parts are fetched when the user reaches them. */
export function usePages<T>(
  path: string,
  query: Query,
  options: {
    id(item: T): string
    /** The part of an item to keep. A long list of long texts would fill the memory. */
    slim?(item: T): T
    topics?: readonly Topic[]
    everyMs?: number
  },
): Pages<T> {
  const key = path + queryText(query)
  const { id, slim = (item: T) => item } = options
  const load = async (part: Query, signal?: AbortSignal): Promise<Page<T>> => {
    const { items, next } = await page<T>(path, part, signal)
    return { items: items.map(slim), next }
  }
  const first = useResource<Page<T>>(key, (signal) => load(query, signal), options)
  const [later, setLater] = useState<{ key: string; items: T[]; next: string | undefined }>()
  const [failed, setFailed] = useState<Error>()
  const busy = useRef(false)
  const own = later?.key === key ? later : undefined
  const next = own === undefined ? first.data?.next : own.next

  // biome-ignore lint/correctness/useExhaustiveDependencies: another list begins at its top
  useEffect(() => {
    setLater(undefined)
    setFailed(undefined)
  }, [key])

  /** Retries after a failure too, because the user clicked. */
  function fetchMore(): void {
    if (next === undefined || busy.current) return
    busy.current = true
    setFailed(undefined)
    load({ ...query, cursor: next })
      .then((part) =>
        setLater((was) => ({ key, items: [...(was?.key === key ? was.items : []), ...part.items], next: part.next })),
      )
      .catch(setFailed)
      .finally(() => {
        busy.current = false
      })
  }

  const head = first.data?.items ?? none
  const shown = useRef<readonly T[]>(none)
  useEffect(() => {
    // Newer items push older items out of the first part. The older items move to the later parts.
    const here = new Set(head.map(id))
    const out = shown.current.filter((item) => !here.has(id(item)))
    shown.current = head
    if (out.length > 0) setLater((was) => was && (was.key === key ? { ...was, items: [...out, ...was.items] } : was))
  }, [head, id, key])
  const seen = new Set(head.map(id))
  // Items that newer items pushed down stand in both parts.
  const items = own === undefined ? head : [...head, ...own.items.filter((item) => !seen.has(id(item)))]
  return {
    items,
    error: first.error,
    failed,
    loading: first.data === undefined && first.error === undefined,
    more: next !== undefined,
    loadMore() {
      if (failed === undefined) fetchMore()
    },
    retryMore: fetchMore,
    reload: first.reload,
  }
}
