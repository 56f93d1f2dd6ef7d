import { type ComponentType, lazy, type ReactElement } from 'react'
import { NotFound } from './pages/not-found.tsx'

type Route = { pattern: RegExp; title: string; page: ComponentType<{ id: string; sub: string }> }

/** Each page is a separate file that loads when it is first shown. */
function load(importPage: () => Promise<Record<string, ComponentType<never>>>) {
  return lazy(async () => ({
    default: Object.values(await importPage())[0] as ComponentType<{ id: string; sub: string }>,
  }))
}

/** The first matching route wins. */
const routes: readonly Route[] = [
  { pattern: /^\/$/, title: 'Overview', page: load(() => import('./pages/overview.tsx')) },
  { pattern: /^\/market$/, title: 'Market', page: load(() => import('./pages/market.tsx')) },
  { pattern: /^\/market\/([^/]+)$/, title: 'Agent', page: load(() => import('./pages/agent.tsx')) },
  { pattern: /^\/agents$/, title: 'My agents', page: load(() => import('./pages/own-agents.tsx')) },
  { pattern: /^\/agents\/new$/, title: 'Add an agent', page: load(() => import('./pages/new-agent.tsx')) },
  { pattern: /^\/agents\/([^/]+)$/, title: 'My agent', page: load(() => import('./pages/own-agent.tsx')) },
  { pattern: /^\/activity$/, title: 'Activity', page: load(() => import('./pages/activity.tsx')) },
  { pattern: /^\/orders\/([^/]+)$/, title: 'Order', page: load(() => import('./pages/order.tsx')) },
  { pattern: /^\/executions\/([^/]+)$/, title: 'Execution', page: load(() => import('./pages/execution.tsx')) },
  { pattern: /^\/approvals$/, title: 'Approvals', page: load(() => import('./pages/approvals.tsx')) },
  { pattern: /^\/payments$/, title: 'Payments', page: load(() => import('./pages/payments.tsx')) },
  { pattern: /^\/payments\/([^/]+)$/, title: 'Payment', page: load(() => import('./pages/payment.tsx')) },
  { pattern: /^\/channels$/, title: 'Channels', page: load(() => import('./pages/channels.tsx')) },
  { pattern: /^\/channels\/([^/]+)$/, title: 'Channel', page: load(() => import('./pages/channel.tsx')) },
  { pattern: /^\/workflows$/, title: 'Workflows', page: load(() => import('./pages/workflows.tsx')) },
  { pattern: /^\/workflows\/new$/, title: 'New workflow', page: load(() => import('./pages/new-workflow.tsx')) },
  { pattern: /^\/workflows\/([^/]+)$/, title: 'Workflow', page: load(() => import('./pages/workflow.tsx')) },
  { pattern: /^\/sessions$/, title: 'Sessions', page: load(() => import('./pages/sessions.tsx')) },
  { pattern: /^\/sessions\/([^/]+)\/([^/]+)$/, title: 'Session', page: load(() => import('./pages/session.tsx')) },
  { pattern: /^\/network$/, title: 'Network', page: load(() => import('./pages/network.tsx')) },
  { pattern: /^\/doors$/, title: 'Doors', page: load(() => import('./pages/doors.tsx')) },
  { pattern: /^\/machines$/, title: 'Machines', page: load(() => import('./pages/machines.tsx')) },
  { pattern: /^\/wallet$/, title: 'Wallet', page: load(() => import('./pages/wallet.tsx')) },
  { pattern: /^\/settings$/, title: 'Settings', page: load(() => import('./pages/settings.tsx')) },
]

export function routeOf(path: string): { page: ReactElement; title: string } {
  for (const { pattern, title, page: Page } of routes) {
    const match = pattern.exec(path)
    if (match === null) continue
    const [, id = '', sub = ''] = match
    return { title, page: <Page id={decoded(id)} sub={decoded(sub)} /> }
  }
  return { title: 'Not found', page: <NotFound /> }
}

/** A malformed address must not break the page. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
