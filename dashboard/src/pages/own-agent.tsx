import { useState } from 'react'
import { stateOf } from '../agent-state.ts'
import { call, page } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { AgentChanges, Execution, OwnAgent as Own, Stats, TestResult } from '../api/types.ts'
import { count, duration, money } from '../format.ts'
import { type AgentFields, AgentForm } from '../parts/agent-form.tsx'
import { Ago, Badge, Figure, PageHead, Section } from '../parts/bits.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { Said } from '../parts/said.tsx'
import { Empty, Problem, Show } from '../parts/states.tsx'
import { say } from '../parts/toasts.tsx'
import { TryOut } from '../parts/try-out.tsx'
import { Link, navigate } from '../router.tsx'
import { endOf } from '../run-end.ts'

/** One agent of this node: edit it, test it, delist it. */
export function OwnAgent({ id }: { id: string }) {
  const agents = useResource('/agents/own', (signal) => call<Own[]>('/agents/own', { signal }), {
    topics: ['listing'],
  })
  return (
    <Show of={agents} what="Own agents are" title="My agent">
      {(list) => {
        const agent = list.find((one) => one.id === id)
        if (agent !== undefined) return <Details agent={agent} reload={agents.reload} />
        return (
          <>
            <PageHead title="No such agent" />
            <p>
              This node does not have this agent. The agent may have been removed. <Link to="/agents">My agents</Link>
            </p>
          </>
        )
      }}
    </Show>
  )
}

function Details({ agent, reload }: { agent: Own; reload(): void }) {
  const path = `/agents/${encodeURIComponent(agent.id)}`
  const [badge, text] = stateOf(agent)
  const [error, setError] = useState<Error>()

  async function act(action: 'pause' | 'resume') {
    setError(undefined)
    await call(`${path}/${action}`, { method: 'POST' }).then(reload, setError)
  }

  return (
    <>
      <PageHead title={agent.name}>
        <button type="button" onClick={() => act(agent.paused ? 'resume' : 'pause')}>
          {agent.paused ? 'Put back on the market' : 'Pause'}
        </button>
        <Confirm
          action="Remove"
          title={`Remove ${agent.name}?`}
          className="danger"
          onConfirm={async () => {
            await call(path, { method: 'DELETE' })
            say(`${agent.name} was removed.`)
            reload()
            navigate('/agents', { replace: true })
          }}
        >
          <p>The agent leaves the market and agents.yaml. Its earnings and calls stay in the ledger.</p>
        </Confirm>
      </PageHead>
      <p className="muted">
        <Badge state={badge}>{text}</Badge> · runs on {agent.runs} ·{' '}
        <Link to={`/market/${agent.id}`}>view as a buyer</Link>
      </p>
      {agent.notice !== undefined && agent.sold_elsewhere !== true && (
        <div className={agent.runnable ? 'state warn' : 'state bad'}>
          <p className="state-title">
            {agent.runnable ? 'The agent needs attention' : 'The agent cannot run and is not on the market'}
          </p>
          <p>
            <Said>{agent.notice}</Said>
          </p>
        </div>
      )}
      {error !== undefined && <Problem error={error} />}
      <Revenue id={agent.id} />
      <div className="columns">
        <Section title="Change">
          {agent.managed_in_file && <p className="hint">To change its program, address or key, edit agents.yaml.</p>}
          <AgentForm
            key={agent.id}
            agent={agent}
            action="Save"
            onSave={async (fields) => {
              await call(path, { method: 'PATCH', body: changesOf(fields, agent) })
              say('Saved. The node publishes the change.')
              reload()
            }}
          />
        </Section>
        <div>
          <TryOut
            title="Try it"
            hint={
              agent.max_price === undefined
                ? 'The test uses the saved settings. It costs nothing and leaves no record.'
                : `The test uses the saved settings, and may pay the remote agent up to ${agent.max_price} USDC.`
            }
            run={(task) => call<TestResult>(`${path}/test`, { method: 'POST', body: { task } })}
          />
          <Recent id={agent.id} />
        </div>
      </div>
    </>
  )
}

/** The changed fields. An emptied field returns to its default. */
function changesOf({ description, price, tags, name: _, ...rest }: AgentFields, agent: Own): AgentChanges {
  const changed = Object.entries(rest).filter(([name, value]) => value !== agent[name as keyof Own])
  return {
    description,
    ...(price !== undefined && { price }),
    tags,
    ...Object.fromEntries(changed.map(([name, value]) => [name, value ?? null])),
  }
}

function Revenue({ id }: { id: string }) {
  const stats = useResource('/stats', (signal) => call<Stats>('/stats?days=30', { signal }), {
    topics: ['payment', 'status'],
  })
  const own = stats.data?.agents.find((agent) => agent.agent_id === id)
  if (stats.data === undefined) return null
  return (
    <dl className="figures">
      <Figure label="Earned in 30 days" value={money(own?.earned ?? '0')} unit="USDC" />
      <Figure label="Calls" value={count(own?.calls ?? 0)} />
      <Figure label="Failed" value={count(own?.failed ?? 0)} />
      <Figure label="Median" value={duration(own?.p50_ms)} note={`p95 ${duration(own?.p95_ms)}`} />
    </dl>
  )
}

const RECENT = 8

function Recent({ id }: { id: string }) {
  const key = `/executions of ${id}`
  const recent = useResource(key, (signal) => page<Execution>('/executions', { agent_id: id, limit: RECENT }, signal), {
    topics: ['payment', 'status'],
  })
  return (
    <Section title="Latest calls">
      <Show of={recent} what="Executions are">
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="Nobody has called this agent yet" />
          ) : (
            <ul className="plain-list">
              {items.map((one) => (
                <li key={one.id}>
                  <Link to={`/executions/${one.id}`}>
                    <Ago iso={one.created_at} />
                  </Link>
                  <Badge state={endOf(one)} />
                  <span className="muted">{duration(one.duration_ms)}</span>
                </li>
              ))}
            </ul>
          )
        }
      </Show>
    </Section>
  )
}
