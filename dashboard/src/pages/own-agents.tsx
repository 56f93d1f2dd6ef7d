import { Fragment } from 'react'
import { stateOf } from '../agent-state.ts'
import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { OwnAgent, Stats } from '../api/types.ts'
import { moneyColumn } from '../format.ts'
import { SumCells, SumHeads, uncalledAgent } from '../parts/agent-sums.tsx'
import { Badge, PageHead } from '../parts/bits.tsx'
import { Said } from '../parts/said.tsx'
import { Empty, Show } from '../parts/states.tsx'
import { Link } from '../router.tsx'

/** The agents that this node sells, and the income of each. */
export function OwnAgents() {
  const agents = useResource('/agents/own', (signal) => call<OwnAgent[]>('/agents/own', { signal }), {
    topics: ['listing'],
  })
  const stats = useResource('/stats', (signal) => call<Stats>('/stats?days=30', { signal }), {
    topics: ['payment', 'status'],
  })
  return (
    <>
      <PageHead title="My agents">
        <Link to="/agents/new" className="button primary">
          Add an agent
        </Link>
      </PageHead>
      <Show of={agents} what="Own agents are">
        {(list) => (list.length === 0 ? <None /> : <Table agents={list} stats={stats.data} />)}
      </Show>
    </>
  )
}

function None() {
  return (
    <Empty title="You sell no agent yet">
      <p>
        An agent is a language model with your instructions, your own program, or a built-in function that needs no key.
        An agent is on the market as soon as you add it.
      </p>
      <Link to="/agents/new" className="button primary">
        Add an agent
      </Link>
    </Empty>
  )
}

/** What the operator should know of an agent. */
function toldOf({ notice, sold_elsewhere: isSold, differs_at: places }: OwnAgent): string | undefined {
  if (notice !== undefined && isSold !== true) return notice
  return (
    places &&
    `Other settings, or none, at ${places.join('; ')}. Make the same change there, or copy agents.yaml and restart.`
  )
}

function Table({ agents, stats }: { agents: readonly OwnAgent[]; stats: Stats | undefined }) {
  const seen = new Map(stats?.agents.map((agent) => [agent.agent_id, agent]))
  const price = moneyColumn(agents.map((agent) => agent.price))
  const earned = moneyColumn((stats?.agents ?? []).map((agent) => agent.earned))
  return (
    <div className="table-wrap">
      <table>
        <thead>
          <tr>
            <th scope="col">Agent</th>
            <th scope="col">State</th>
            <th scope="col" className="number extra">
              Price, USDC
            </th>
            <SumHeads extra="extra" />
          </tr>
        </thead>
        <tbody>
          {agents.map((agent) => {
            const [state, text] = stateOf(agent)
            const told = toldOf(agent)
            return (
              <Fragment key={agent.id}>
                <tr className={told === undefined ? undefined : 'explained'}>
                  <th scope="row">
                    <Link to={`/agents/${agent.id}`}>{agent.name}</Link>
                    <span className="row-meta block">{agent.runs}</span>
                  </th>
                  <td>
                    <Badge state={state}>{text}</Badge>
                  </td>
                  <td className="number extra">
                    {agent.pricing !== undefined && 'up to '}
                    {Number(agent.price) === 0 ? 'free' : price(agent.price)}
                  </td>
                  <SumCells of={stats && (seen.get(agent.id) ?? uncalledAgent(agent))} extra="extra" earned={earned} />
                </tr>
                {told !== undefined && (
                  <tr>
                    <td colSpan={8} className={agent.runnable ? 'why' : 'why bad-text'}>
                      <Said>{told}</Said>
                    </td>
                  </tr>
                )}
              </Fragment>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}
