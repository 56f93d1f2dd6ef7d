import { useMemo } from 'react'
import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { WorkflowRecord, WorkflowStep } from '../api/types.ts'
import { amount, money } from '../format.ts'
import { AgentLink } from '../parts/agent-link.tsx'
import { Ago, Badge, Figure, PageHead, Section, Words } from '../parts/bits.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { Graph } from '../parts/graph.tsx'
import { Show } from '../parts/states.tsx'
import { say } from '../parts/toasts.tsx'
import { books } from '../payment-words.ts'
import { Link } from '../router.tsx'

/** A workflow during its run, and its result. */
export function Workflow({ id }: { id: string }) {
  const path = `/workflows/${encodeURIComponent(id)}`
  const workflow = useResource(path, (signal) => call<WorkflowRecord>(path, { signal }), {
    topics: ['workflow', 'order'],
    everyMs: 1_500,
  })
  return (
    <Show of={workflow} what="This workflow is" title="Workflow">
      {(record) => (
        <>
          <PageHead title={record.name ?? 'Workflow'}>
            {(record.status === 'pending' || record.status === 'running') && (
              <Confirm
                action="Cancel the workflow"
                title="Cancel this workflow?"
                className="danger"
                onConfirm={async () => {
                  await call(path, { method: 'DELETE' })
                  say('Canceled. Paid results are kept.')
                  workflow.reload()
                }}
              >
                <p>The sellers of running steps stop too. Paid results are kept. The rest is not charged.</p>
              </Confirm>
            )}
          </PageHead>
          <p className="muted" role="status">
            <Badge state={record.status} /> · started <Ago iso={record.created_at} />
          </p>
          <dl className="figures">
            <Figure
              label="Expected"
              value={money(record.estimate)}
              unit="USDC"
              note="listed prices when the workflow was created"
            />
            <Figure label="Paid" value={money(record.paid)} unit="USDC" note={`${money(record.held)} held`} />
            {record.budget !== undefined && <Figure label="At most" value={money(record.budget)} unit="USDC" />}
          </dl>
          <Drawing steps={record.steps} />
          {record.error !== undefined && (
            <div className="state bad" role="alert">
              <p className="state-title">
                {record.error.step_id === undefined ? 'The workflow failed' : `${record.error.step_id} failed`}
              </p>
              <p className="pre">{record.error.message}</p>
            </div>
          )}
          {record.output !== undefined && (
            <Section title="Result">
              <Words text={record.output} label="Result of the workflow" />
            </Section>
          )}
          <Section title="Steps">
            <ol className="steps">
              {record.steps.map((step) => (
                <Step key={step.id} step={step} />
              ))}
            </ol>
          </Section>
          {record.input !== undefined && (
            <Section title="Input">
              <Words text={record.input} label="Input of the workflow" />
            </Section>
          )}
        </>
      )}
    </Show>
  )
}

function Drawing({ steps }: { steps: readonly WorkflowStep[] }) {
  const nodes = useMemo(
    () =>
      steps.map((step) => ({
        id: step.id,
        depends_on: step.depends_on,
        title: step.id,
        text: `${step.status} · ${Number(step.price) === 0 ? 'free' : money(step.price)}`,
        state: step.status,
      })),
    [steps],
  )
  return <Graph nodes={nodes} label="Steps of the workflow" />
}

function Step({ step }: { step: WorkflowStep }) {
  const order = step.order_ids.at(-1)
  return (
    <li className="step">
      <div className="step-head">
        <h3>{step.id}</h3>
        <Badge state={step.status} />
        <AgentLink id={step.agent_id} />
        <span className="muted">
          {step.payment === undefined
            ? Number(step.price) === 0
              ? 'free'
              : `${amount(step.price)} ${step.url === undefined ? 'listed' : 'at most'}`
            : `${amount(step.payment.amount)} ${books[step.payment.book].word}`}
        </span>
        {order !== undefined && <Link to={`/orders/${order}`}>exchange</Link>}
      </div>
      {step.error !== undefined && <p className="bad-text pre">{step.error.message}</p>}
      {step.output !== undefined && (
        <details>
          <summary>Result</summary>
          <Words text={step.output} label={`Result of ${step.id}`} />
        </details>
      )}
    </li>
  )
}
