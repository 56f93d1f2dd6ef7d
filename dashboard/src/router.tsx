import { type AnchorHTMLAttributes, type MouseEvent, useSyncExternalStore } from 'react'

/** The dashboard answers under both paths, like the API. */
const BASE = /^(?:\/api)?\/dashboard/.exec(location.pathname)?.[0] ?? '/dashboard'

const listeners = new Set<() => void>()
const notify = () => {
  for (const listener of [...listeners]) listener()
}
window.addEventListener('popstate', notify)

function subscribe(listener: () => void) {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

/** The current path below the dashboard's own address: `/market/abc`. */
export function usePath(): string {
  return useSyncExternalStore(subscribe, () => location.pathname.slice(BASE.length).replace(/\/+$/, '') || '/')
}

/** A query parameter, and a function that changes it without a new history entry. */
export function useQuery(): [URLSearchParams, (changes: Record<string, string>) => void] {
  const text = useSyncExternalStore(subscribe, () => location.search)
  const change = (changes: Record<string, string>) => {
    const query = new URLSearchParams(location.search)
    for (const [name, value] of Object.entries(changes)) {
      if (value === '') query.delete(name)
      else query.set(name, value)
    }
    const next = query.toString()
    history.replaceState(null, '', location.pathname + (next === '' ? '' : `?${next}`))
    notify()
  }
  return [new URLSearchParams(text), change]
}

export function navigate(to: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, '', BASE + to)
  else history.pushState(null, '', BASE + to)
  window.scrollTo(0, 0)
  notify()
}

type LinkProps = AnchorHTMLAttributes<HTMLAnchorElement> & { to: string }

export function Link({ to, onClick, ...rest }: LinkProps) {
  function follow(event: MouseEvent<HTMLAnchorElement>) {
    onClick?.(event)
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey
    if (!isPlain || event.defaultPrevented) return
    event.preventDefault()
    navigate(to)
  }
  return <a href={BASE + to} onClick={follow} {...rest} />
}
