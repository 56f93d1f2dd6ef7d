import { type ReactNode, useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore } from 'react'
import type { Pages } from '../api/pages.ts'
import { Problem } from './states.tsx'

/** Rows drawn above and below the visible part, so that scrolling and the Tab key never meet an edge. */
const SPARE_ROWS = 8
/** The next part loads when this many rows are left. */
const AHEAD_ROWS = 20
const narrow = matchMedia('(max-width: 700px)')

export function useIsNarrow(): boolean {
  return useSyncExternalStore(
    (listener) => {
      narrow.addEventListener('change', listener)
      return () => narrow.removeEventListener('change', listener)
    },
    () => narrow.matches,
  )
}

type Props<T> = {
  label: string
  pages: Pages<T>
  id(item: T): string
  /** Row height in px, on wide and on narrow pages. All rows are equally high. */
  rowHeight: readonly [number, number]
  children(item: T): ReactNode
}

/** A list of any length. Only visible rows are in the document, and parts load when the user reaches them. */
export function WindowedList<T>({ label, pages, id, rowHeight, children }: Props<T>) {
  const { items, more, loadMore, failed, retryMore } = pages
  const height = rowHeight[useIsNarrow() ? 1 : 0]
  const list = useRef<HTMLUListElement>(null)
  const [[from, to], setRange] = useState<readonly [number, number]>([0, 30])
  const length = items.length

  useLayoutEffect(() => {
    let frame = 0
    function look() {
      const top = list.current?.getBoundingClientRect().top ?? 0
      const first = Math.max(0, Math.floor(-top / height) - SPARE_ROWS)
      const last = Math.ceil((innerHeight - top) / height) + SPARE_ROWS
      setRange((was) => (was[0] === first && was[1] === last ? was : [first, last]))
    }
    const later = () => {
      cancelAnimationFrame(frame)
      frame = requestAnimationFrame(look)
    }
    look()
    addEventListener('scroll', later, { passive: true })
    addEventListener('resize', later)
    return () => {
      cancelAnimationFrame(frame)
      removeEventListener('scroll', later)
      removeEventListener('resize', later)
    }
  }, [height])

  useEffect(() => {
    if (more && to + AHEAD_ROWS >= length) loadMore()
  }, [more, to, length, loadMore])

  return (
    <>
      <ul ref={list} className="rows" aria-label={label} style={{ height: length * height }}>
        {items.slice(from, to).map((item, index) => (
          <li
            key={id(item)}
            aria-posinset={from + index + 1}
            aria-setsize={more ? -1 : length}
            style={{ top: (from + index) * height, height }}
          >
            {children(item)}
          </li>
        ))}
      </ul>
      {failed !== undefined && <Problem error={failed} retry={retryMore} />}
    </>
  )
}
