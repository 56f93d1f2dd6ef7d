import { type Alert, alertsOf } from '../alerts.ts'
import { useAlarms } from '../api/alarms.ts'
import { useWaiting } from '../api/approvals.ts'
import { call, isMissing } from '../api/client.ts'
import { type Resource, useResource } from '../api/resource.ts'
import { useStatus } from '../api/status.ts'
import type { Alarm, Budget, NodeStatus, OwnAgent, Stats, WalletBalance } from '../api/types.ts'
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
  const status = useStatus()
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
        {(node) => <Health node={node} alarms={alarms} alerts={alerts} />}
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

function Health({
  node,
  alarms,
  alerts,
}: {
  node: NodeStatus
  alarms: Resource<readonly Alarm[]>
  alerts: readonly Alert[]
}) {
  const { state } = node.reachability
  const agents = node.agents.local === 1 ? 'One agent' : `${count(node.agents.local)} agents`
  const peers = node.connected_peers === 1 ? 'one peer' : `${count(node.connected_peers)} peers`
  return (
    <section className="health" aria-label="Health">
      <Headline node={node} alarms={alarms} alerts={alerts} />
      <p className="muted">
        {agents} of this node · {reachabilityText[state].toLowerCase()} · {peers} connected
      </p>
      {alerts.length > 0 && <AlertList alerts={alerts} onDismissed={alarms.reload} />}
    </section>
  )
}

/** Alarms that are not known are not the same as none. */
function Headline({
  node: { database },
  alarms,
  alerts,
}: {
  node: NodeStatus
  alarms: Resource<readonly Alarm[]>
  alerts: readonly Alert[]
}) {
  if (database !== undefined) return <p className="headline bad">Not known now: the ledger cannot be read</p>
  if (alerts.length > 0) {
    const tone = alerts.some((alert) => alert.tone === 'bad') ? 'bad' : 'warn'
    const what = alerts.length === 1 ? 'One alert needs your attention' : `${alerts.length} alerts need your attention`
    return <p className={`headline ${tone}`}>{what}</p>
  }
  if (alarms.data !== undefined || isMissing(alarms.error)) return <p className="headline good">No alerts</p>
  return <p className="headline">{alarms.error === undefined ? 'Looking for alerts…' : 'Alerts are not known'}</p>
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
