import { type Alert, alertsOf } from '../alerts.ts'
import { useAlarms } from '../api/alarms.ts'
import { useWaiting } from '../api/approvals.ts'
import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Budget, NodeStatus, OwnAgent, Stats, WalletBalance } from '../api/types.ts'
import { count, span } from '../format.ts'
import { AlertList } from '../parts/alert-list.tsx'
import { Facts, PageHead, Section } from '../parts/bits.tsx'
import { Buying } from '../parts/buying.tsx'
import { Selling } from '../parts/selling.tsx'
import { Show } from '../parts/states.tsx'
import { reachabilityText } from '../reachability.ts'
import { Link } from '../router.tsx'

const BALANCE_MS = 60_000

export function Overview() {
  const status = useResource('/status', (signal) => call<NodeStatus>('/status', { signal }), {
    topics: ['status', 'listing', 'payment'],
  })
  const stats = useResource('/stats', (signal) => call<Stats>('/stats?days=30', { signal }), {
    topics: ['payment', 'order', 'status'],
  })
  const approvals = useWaiting()
  const alarms = useAlarms()
  const budget = useResource('/budget', (signal) => call<Budget>('/budget', { signal }), {
    topics: ['order', 'payment'],
  })
  const balance = useResource('/wallet/balance', (signal) => call<WalletBalance>('/wallet/balance', { signal }), {
    topics: ['payment'],
    everyMs: BALANCE_MS,
  })
  const own = useResource('/agents/own', (signal) => call<OwnAgent[]>('/agents/own', { signal }), {
    topics: ['listing'],
    everyMs: 15_000,
  })
  const alerts = alertsOf({
    alarms: alarms.data,
    status: status.data,
    approvals: approvals.data?.items,
    budget: budget.data,
    balance: balance.data,
    balanceError: balance.data === undefined ? balance.error : undefined,
  })

  return (
    <>
      <PageHead title="Overview" />
      <Show of={status} what="The status is">
        {(node) => <Health node={node} alerts={alerts} onDismissed={alarms.reload} />}
      </Show>
      <Show of={stats} what="Earnings are">
        {(known) => {
          const selling = <Selling key="selling" stats={known} own={own.data} />
          const buying = <Buying key="buying" stats={known} budget={budget.data} />
          const isSeller = known.agents.length > 0 || (own.data?.length ?? 0) > 0
          return isSeller ? [selling, buying] : [buying, selling]
        }}
      </Show>
      {status.data !== undefined && <Node node={status.data} />}
    </>
  )
}

function Health({ node, alerts, onDismissed }: { node: NodeStatus; alerts: readonly Alert[]; onDismissed(): void }) {
  const { state } = node.reachability
  const agents = node.agents.local === 1 ? 'One agent' : `${count(node.agents.local)} agents`
  const peers = node.connected_peers === 1 ? 'one peer' : `${count(node.connected_peers)} peers`
  const what = alerts.length === 1 ? 'One alert needs your attention' : `${alerts.length} alerts need your attention`
  return (
    <section className="health" aria-label="Health">
      <p
        className={
          alerts.some(({ tone }) => tone === 'bad')
            ? 'headline bad'
            : alerts.length > 0
              ? 'headline warn'
              : 'headline good'
        }
      >
        {alerts.length === 0 ? 'No alerts' : what}
      </p>
      <p className="muted">
        {agents} on sale · {reachabilityText[state].toLowerCase()} · {peers} connected
      </p>
      {alerts.length > 0 && <AlertList alerts={alerts} onDismissed={onDismissed} />}
    </section>
  )
}

function Node({ node }: { node: NodeStatus }) {
  return (
    <Section title="Node" aside={<Link to="/network">Network</Link>}>
      <Facts
        rows={[
          ['Market', `${count(node.agents.known)} agents known`],
          ['Running for', span(node.uptime_seconds)],
          ['Version', node.version],
          node.processes !== undefined && [
            'Machines',
            <Link key="machines" to="/machines">
              {node.processes.alive === 1 ? 'one process' : `${count(node.processes.alive)} processes`}
            </Link>,
          ],
        ]}
      />
    </Section>
  )
}
