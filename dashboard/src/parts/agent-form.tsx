import { type FormEvent, useState } from 'react'
import type { OwnAgent } from '../api/types.ts'
import { isAmount } from '../format.ts'
import { Field, NO_AMOUNT } from './field.tsx'
import { Problem } from './states.tsx'

export type AgentFields = {
  name: string
  description: string
  /** A JSON number: at most 6 decimals, so nothing is lost. */
  price: number
  model: string | undefined
  tags: string[]
  timeout_seconds: number | undefined
}

const builtins = ['builtin/summarize', 'builtin/word-count', 'builtin/json-query', 'builtin/echo']

type Props = {
  /** Undefined: a new one. */
  agent: OwnAgent | undefined
  action: string
  onSave(fields: AgentFields): Promise<unknown>
}

/** What a seller says of an agent. */
export function AgentForm({ agent, action, onSave }: Props) {
  const [price, setPrice] = useState(agent === undefined ? '0' : agent.price)
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)

  async function save(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const text = (name: string) => String(form.get(name) ?? '').trim()
    const seconds = text('timeout_seconds')
    setBusy(true)
    setError(undefined)
    try {
      await onSave({
        name: agent?.name ?? text('name'),
        description: text('description'),
        price: Number(price.trim()),
        model: text('model') || undefined,
        tags: text('tags')
          .split(',')
          .map((tag) => tag.trim())
          .filter((tag) => tag !== ''),
        timeout_seconds: seconds === '' ? undefined : Number(seconds),
      })
    } catch (reason) {
      setError(reason as Error)
    }
    setBusy(false)
  }

  const isWrong = !isAmount(price)
  return (
    <form className="form" onSubmit={save}>
      {agent === undefined && (
        <Field label="Name" hint="Buyers see it, and it cannot be changed later: another name is another agent.">
          <input name="name" required maxLength={80} placeholder="Summary" />
        </Field>
      )}
      <Field label="Description" hint="Buyers see it, and a language model takes it as its instruction.">
        <textarea name="description" rows={4} required maxLength={4000} defaultValue={agent?.description} />
      </Field>
      <div className="fields">
        <Field label="Price, USDC" hint="0 is free" error={isWrong && NO_AMOUNT}>
          <input inputMode="decimal" required value={price} onChange={(event) => setPrice(event.target.value)} />
        </Field>
        <Field label="Time limit, seconds">
          <input
            name="timeout_seconds"
            type="number"
            min={1}
            max={3600}
            placeholder="120"
            defaultValue={agent?.timeout_seconds}
          />
        </Field>
      </div>
      {agent?.runs !== 'command' && agent?.runs !== 'a2a' && (
        <Field
          label="Runs on"
          hint="provider/model, such as anthropic/claude-sonnet-4-5, or a built-in agent. Programs and keys are named in agents.yaml."
        >
          <input name="model" list="models" maxLength={200} placeholder="best available" defaultValue={agent?.model} />
        </Field>
      )}
      <datalist id="models">
        {builtins.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <Field label="Tags" hint="with commas between">
        <input name="tags" placeholder="text, contract" defaultValue={agent?.tags.join(', ')} />
      </Field>
      <button type="submit" className="primary" disabled={busy || isWrong}>
        {busy ? 'Saving…' : action}
      </button>
      {error !== undefined && <Problem error={error} />}
    </form>
  )
}
