import { type Alert, alertsOf } from '../alerts.ts'
import { useWaiting } from '../api/approvals.ts'
import { call, page } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { AgentStats, Budget, NodeStatus, OwnAgent, PaymentRecord, Stats, WalletBalance } from '../api/types.ts'
import { count, duration, money, moneyColumn, percent, short, span } from '../format.ts'
import { Facts, Figure, PageHead, Section } from '../parts/bits.tsx'
import { HoursChart } from '../parts/hours-chart.tsx'
import { Empty, Show } from '../parts/states.tsx'
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
  const budget = useResource('/budget', (signal) => call<Budget>('/budget', { signal }), { topics: ['order'] })
  const balance = useResource('/wallet/balance', (signal) => call<WalletBalance>('/wallet/balance', { signal }), {
    everyMs: BALANCE_MS,
  })
  const own = useResource('/agents/own', (signal) => call<OwnAgent[]>('/agents/own', { signal }), {
    topics: ['listing'],
    everyMs: 15_000,
  })
  const isOwed = (status.data?.settlement.pending ?? 0) > 0
  const owed = useResource(
    isOwed ? 'owed' : undefined,
    (signal) => page<PaymentRecord>('/payments', { direction: 'in', state: 'pending', limit: 20 }, signal),
    { topics: ['payment'] },
  )
  const alerts = alertsOf({
    owed: owed.data?.items,
    agents: own.data,
    status: status.data,
    stats: stats.data,
    approvals: approvals.data?.items,
    budget: budget.data,
    balance: balance.data,
    balanceError: balance.data === undefined ? balance.error : undefined,
  })

  return (
    <>
      <PageHead title="Overview" />
      <Show of={status} what="The status is">
        {(node) => <Health node={node} alerts={alerts} />}
      </Show>
      <Show of={stats} what="Earnings are">
        {(known) => (
          <>
            <Money stats={known} />
            {sold(known, own.data).length > 0 && (
              <Section title="Executions per hour" aside={<Link to="/activity">All activity</Link>}>
                <HoursChart hours={known.hours} />
              </Section>
            )}
            <Section title="Agents" aside={<Link to="/agents">My agents</Link>}>
              <Agents agents={sold(known, own.data)} />
            </Section>
          </>
        )}
      </Show>
      {status.data !== undefined && <Node node={status.data} balance={balance.data} />}
    </>
  )
}

function Health({ node, alerts }: { node: NodeStatus; alerts: readonly Alert[] }) {
  const { state } = node.reachability
  const agents = node.agents.local === 1 ? 'One agent' : `${count(node.agents.local)} agents`
  const peers = node.connected_peers === 1 ? 'one peer' : `${count(node.connected_peers)} peers`
  const what = alerts.length === 1 ? 'One thing needs you' : `${alerts.length} things need you`
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
        {alerts.length === 0 ? 'All is well' : what}
      </p>
      <p className="muted">
        {agents} on sale · {reachabilityText[state].toLowerCase()} · {peers} connected
      </p>
      {alerts.length > 0 && (
        <ul className="alerts">
          {alerts.map(({ tone, title, fix, to, action }) => (
            <li key={title} className={tone}>
              <div className="alert-text">
                <strong>{title}</strong>
                <p>{fix}</p>
              </div>
              <Link to={to} className="button">
                {action}
              </Link>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

function Money({ stats: { earned, paid: spent, days, owed: pending } }: { stats: Stats }) {
  const day = new Date().toISOString().slice(0, 10)
  const today = days.find((one) => one.day === day)
  const executions = days.reduce((total, one) => total + one.executions, 0)
  const failed = days.reduce((total, one) => total + one.failed, 0)
  return (
    <dl className="figures">
      <Figure
        label="Earned today"
        value={money(earned.today)}
        unit="USDC"
        note={`${money(earned.month)} in 30 days${pending.payments > 0 ? `, ${money(pending.amount)} on its way` : ''}`}
      />
      <Figure label="Spent today" value={money(spent.today)} unit="USDC" note={`${money(spent.month)} in 30 days`} />
      <Figure label="Executions today" value={count(today?.executions ?? 0)} note={`${count(executions)} in 30 days`} />
      <Figure
        label="Failed today"
        value={count(today?.failed ?? 0)}
        note={executions === 0 ? 'no executions yet' : `${percent(failed / executions)} in 30 days`}
      />
    </dl>
  )
}

/** Also those that nobody has called yet. */
function sold({ agents }: Stats, own: readonly OwnAgent[] = []): AgentStats[] {
  const called = new Set(agents.map(({ agent_id }) => agent_id))
  const uncalled = own.filter(({ id }) => !called.has(id))
  const nothing = { calls: 0, failed: 0, earned: '0', earned_atomic: '0' }
  return [...agents, ...uncalled.map(({ id, name }) => ({ agent_id: id, name, ...nothing }))]
}

function Agents({ agents }: { agents: readonly AgentStats[] }) {
  if (agents.length === 0) {
    return (
      <Empty title="You sell no agent yet">
        <Link to="/agents/new" className="button primary">
          Add an agent
        </Link>
      </Empty>
    )
  }
  const amount = moneyColumn(agents.map(({ earned }) => earned))
  return (
    <div className="table-wrap">
      <table>
        <thead>
          <tr>
            <th scope="col">Agent</th>
            <th scope="col" className="number">
              Calls
            </th>
            <th scope="col" className="number">
              Failed
            </th>
            <th scope="col" className="number">
              Earned, USDC
            </th>
            <th scope="col" className="number extra">
              Half within
            </th>
            <th scope="col" className="number extra">
              95 % within
            </th>
          </tr>
        </thead>
        <tbody>
          {agents.map((agent) => (
            <tr key={agent.agent_id}>
              <th scope="row">
                <Link to={`/agents/${agent.agent_id}`}>{agent.name ?? short(agent.agent_id)}</Link>
              </th>
              <td className="number">{count(agent.calls)}</td>
              <td className={agent.failed > 0 ? 'number bad-text' : 'number'}>{count(agent.failed)}</td>
              <td className="number">{amount(agent.earned)}</td>
              <td className="number extra">{duration(agent.p50_ms)}</td>
              <td className="number extra">{duration(agent.p95_ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Node({ node, balance }: { node: NodeStatus; balance: WalletBalance | undefined }) {
  const { pending, failed } = node.settlement
  return (
    <Section title="Node" aside={<Link to="/network">Network</Link>}>
      <Facts
        rows={[
          ['Outbox', `${count(pending)} to settle, ${count(failed)} given up`],
          balance && ['Balance', `${money(balance.balance)} ${balance.symbol}`],
          ['Market', `${count(node.agents.known)} agents known`],
          ['Running for', span(node.uptime_seconds)],
          ['Version', node.version],
        ]}
      />
    </Section>
  )
}
