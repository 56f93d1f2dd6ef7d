import { type ComponentType, lazy, type ReactElement } from 'react'
import { NotFound } from './pages/not-found.tsx'

type Route = { pattern: RegExp; title: string; page: ComponentType<{ id: string; sub: string }> }

/** Each page is a file of its own that loads when it is first shown. */
function load(importPage: () => Promise<Record<string, ComponentType<never>>>) {
  return lazy(async () => ({
    default: Object.values(await importPage())[0] as ComponentType<{ id: string; sub: string }>,
  }))
}

const routes: readonly Route[] = [
  { pattern: /^\/$/, title: 'Overview', page: load(() => import('./pages/overview.tsx')) },
  { pattern: /^\/market$/, title: 'Market', page: load(() => import('./pages/market.tsx')) },
  { pattern: /^\/market\/([^/]+)$/, title: 'Agent', page: load(() => import('./pages/agent.tsx')) },
  { pattern: /^\/orders\/([^/]+)$/, title: 'Order', page: load(() => import('./pages/order.tsx')) },
]

export function routeOf(path: string): { page: ReactElement; title: string } {
  for (const { pattern, title, page: Page } of routes) {
    const match = pattern.exec(path)
    if (match === null) continue
    const [, id = '', sub = ''] = match
    return { title, page: <Page id={decodeURIComponent(id)} sub={decodeURIComponent(sub)} /> }
  }
  return { title: 'Not found', page: <NotFound /> }
}
