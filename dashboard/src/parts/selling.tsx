import type { AgentStats, OwnAgent, Stats } from '../api/types.ts'
import { count, money, moneyColumn, percent, short } from '../format.ts'
import { Link } from '../router.tsx'
import { SumCells, SumHeads, uncalledAgent } from './agent-sums.tsx'
import { Figure, Section } from './bits.tsx'
import { ExecutionsChart } from './executions-chart.tsx'
import { Empty } from './states.tsx'

/** The income of this node, by agent. */
export function Selling({ stats, own }: { stats: Stats; own: readonly OwnAgent[] | undefined }) {
  const agents = sold(stats, own)
  return (
    <>
      <Section title="Selling" aside={<Link to="/agents">My agents</Link>}>
        {agents.length === 0 ? (
          <Empty title="You sell no agent yet">
            <Link to="/agents/new" className="button primary">
              Add an agent
            </Link>
          </Empty>
        ) : (
          <>
            <Figures stats={stats} />
            <Agents agents={agents} />
          </>
        )}
      </Section>
      {agents.length > 0 && <ExecutionsChart stats={stats} aside={<Link to="/activity">All activity</Link>} />}
    </>
  )
}

function Figures({ stats: { earned, days, owed, lost } }: { stats: Stats }) {
  const day = new Date().toISOString().slice(0, 10)
  const today = days.find((one) => one.day === day)
  const executions = days.reduce((total, one) => total + one.executions, 0)
  const failed = days.reduce((total, one) => total + one.failed, 0)
  const lostText = lost.payments === 0 ? 'nothing lost' : `${money(lost.amount)} lost in total`
  return (
    <dl className="figures">
      <Figure label="Earned today" value={money(earned.today)} unit="USDC" note={`${money(earned.month)} in 30 days`} />
      <Figure
        label="Owed"
        value={money(owed.amount)}
        unit="USDC"
        note={`${count(owed.payments)} to be settled, ${lostText}`}
      />
      <Figure label="Executions today" value={count(today?.executions ?? 0)} note={`${count(executions)} in 30 days`} />
      <Figure
        label="Failed today"
        value={count(today?.failed ?? 0)}
        note={executions === 0 ? 'no executions yet' : `${percent(failed / executions)} in 30 days`}
      />
    </dl>
  )
}

/** Includes agents without calls. */
function sold({ agents }: Stats, own: readonly OwnAgent[] = []): AgentStats[] {
  const called = new Set(agents.map(({ agent_id }) => agent_id))
  const uncalled = own.filter(({ id }) => !called.has(id))
  return [...agents, ...uncalled.map(uncalledAgent)]
}

function Agents({ agents }: { agents: readonly AgentStats[] }) {
  const earned = moneyColumn(agents.map((agent) => agent.earned))
  return (
    <div className="table-wrap">
      <table>
        <thead>
          <tr>
            <th scope="col">Agent</th>
            <SumHeads />
          </tr>
        </thead>
        <tbody>
          {agents.map((agent) => (
            <tr key={agent.agent_id}>
              <th scope="row">
                <Link to={`/agents/${agent.agent_id}`}>{agent.name ?? short(agent.agent_id)}</Link>
              </th>
              <SumCells of={agent} earned={earned} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
