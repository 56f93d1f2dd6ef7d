import { type FormEvent, useMemo, useState } from 'react'
import { call } from '../api/client.ts'
import type { NewWorkflow as Definition, Listing, WorkflowQuote, WorkflowRecord } from '../api/types.ts'
import { agentPrice, amount, isAmount, price } from '../format.ts'
import { AgentPicker } from '../parts/agent-picker.tsx'
import { PageHead, Section } from '../parts/bits.tsx'
import { Field, NO_AMOUNT } from '../parts/field.tsx'
import { Graph } from '../parts/graph.tsx'
import { Problem } from '../parts/states.tsx'
import { navigate } from '../router.tsx'

type Step = { id: string; agent: Listing; input: string; dependsOn: readonly string[] }

/** A step name made from the name of its agent. */
function stepId(name: string, taken: readonly string[]): string {
  const base =
    name
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, '-')
      .replace(/^-|-$/g, '')
      .slice(0, 24) || 'step'
  for (let no = 1; ; no++) {
    const id = no === 1 ? base : `${base}-${no}`
    if (!taken.includes(id)) return id
  }
}

/** A form for agents in sequence or in parallel. It shows the cost before the workflow runs. */
export function NewWorkflow() {
  const [steps, setSteps] = useState<readonly Step[]>([])
  const [name, setName] = useState('')
  const [input, setInput] = useState('')
  const [budget, setBudget] = useState('')
  const [quote, setQuote] = useState<WorkflowQuote>()
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)

  function add(agent: Listing) {
    const id = stepId(
      agent.name,
      steps.map((step) => step.id),
    )
    const last = steps.at(-1)
    setQuote(undefined)
    setSteps([...steps, { id, agent, input: '', dependsOn: last === undefined ? [] : [last.id] }])
  }
  function change(id: string, changes: Partial<Step>) {
    setQuote(undefined)
    setSteps(steps.map((step) => (step.id === id ? { ...step, ...changes } : step)))
  }
  function remove(id: string) {
    setQuote(undefined)
    const left = steps.filter((step) => step.id !== id)
    setSteps(left.map((step) => ({ ...step, dependsOn: step.dependsOn.filter((one) => one !== id) })))
  }

  const definition: Definition = {
    ...(name.trim() !== '' && { name: name.trim() }),
    input,
    ...(budget !== '' && { budget }),
    steps: steps.map(({ id, agent, input: template, dependsOn }) => ({
      id,
      agent_id: agent.id,
      depends_on: [...dependsOn],
      ...(template.trim() !== '' && { input: template }),
    })),
  }

  async function submit(event: FormEvent) {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      if (quote === undefined) {
        setQuote(await call<WorkflowQuote>('/workflows?dry_run=true', { method: 'POST', body: definition }))
      } else {
        // The total that the user saw on this page is the limit of the cost.
        const body = { ...definition, budget: budget === '' ? quote.total_max : budget }
        const { id } = await call<WorkflowRecord>('/workflows', { method: 'POST', body })
        return navigate(`/workflows/${id}`)
      }
    } catch (reason) {
      setError(reason as Error)
    }
    setBusy(false)
  }

  const nodes = useMemo(
    () =>
      steps.map(({ id, agent, dependsOn }) => ({
        id,
        depends_on: dependsOn,
        title: id,
        text: agent.local ? 'yours, free' : agentPrice(agent),
        state: 'pending',
      })),
    [steps],
  )
  const isBudgetWrong = budget !== '' && !isAmount(budget)

  return (
    <>
      <PageHead title="New workflow" />
      <form onSubmit={submit}>
        <div className="form">
          <label>
            Name
            <input
              value={name}
              maxLength={80}
              onChange={(event) => setName(event.target.value)}
              placeholder="optional"
            />
          </label>
          <label>
            Input
            <textarea
              rows={4}
              required
              value={input}
              onChange={(event) => {
                setQuote(undefined)
                setInput(event.target.value)
              }}
              placeholder="Task for the first agents"
            />
          </label>
        </div>
        <Section title="Steps">
          {nodes.length > 0 && <Graph nodes={nodes} label="Steps of the new workflow" />}
          <ol className="steps">
            {steps.map((step, index) => (
              <StepForm
                key={step.id}
                step={step}
                before={steps.slice(0, index)}
                onChange={(changes) => change(step.id, changes)}
                onRemove={() => remove(step.id)}
              />
            ))}
          </ol>
          <AgentPicker label={steps.length === 0 ? 'First agent' : 'Next agent'} onPick={add} />
        </Section>
        <div className="form">
          <Field label="Budget, USDC" error={isBudgetWrong && NO_AMOUNT}>
            <input
              inputMode="decimal"
              value={budget}
              onChange={(event) => {
                setQuote(undefined)
                setBudget(event.target.value)
              }}
              placeholder="default: the quote"
            />
          </Field>
          <div role="status">{quote !== undefined && <Quote quote={quote} />}</div>
          {error !== undefined && <Problem error={error} />}
          <button type="submit" className="primary" disabled={busy || steps.length === 0 || isBudgetWrong}>
            {quote === undefined ? 'Show the cost' : `Run for ${amount(quote.total)}`}
          </button>
        </div>
      </form>
    </>
  )
}

function Quote({ quote }: { quote: WorkflowQuote }) {
  return (
    <dl className="bill">
      {quote.steps.map((step) => (
        <div key={step.id}>
          <dt>
            {step.id} by {step.name}
          </dt>
          <dd>{step.local ? 'free' : price(step.price)}</dd>
        </div>
      ))}
      <div>
        <dt>Total</dt>
        <dd>{amount(quote.total)}</dd>
      </div>
    </dl>
  )
}

type StepFormProps = {
  step: Step
  before: readonly Step[]
  onChange(changes: Partial<Step>): void
  onRemove(): void
}

function StepForm({ step, before, onChange, onRemove }: StepFormProps) {
  const toggle = (id: string) => {
    const { dependsOn } = step
    onChange({ dependsOn: dependsOn.includes(id) ? dependsOn.filter((one) => one !== id) : [...dependsOn, id] })
  }
  const example = before.at(-1)?.id
  return (
    <li className="step">
      <div className="step-head">
        <h3>{step.id}</h3>
        <span>{step.agent.name}</span>
        <span className="muted">{step.agent.local ? 'yours, free' : agentPrice(step.agent)}</span>
        <button type="button" className="quiet" onClick={onRemove} aria-label={`Remove step ${step.id}`}>
          Remove
        </button>
      </div>
      {before.length > 0 && (
        <fieldset className="checks">
          <legend>After</legend>
          {before.map(({ id }) => (
            <label key={id}>
              <input type="checkbox" checked={step.dependsOn.includes(id)} onChange={() => toggle(id)} />
              {id}
            </label>
          ))}
        </fieldset>
      )}
      <label>
        Task
        <input
          value={step.input}
          onChange={(event) => onChange({ input: event.target.value })}
          placeholder={
            example === undefined
              ? 'the input'
              : `the output of the steps before, or Shorten: {{steps.${example}.output}}`
          }
        />
      </label>
    </li>
  )
}
