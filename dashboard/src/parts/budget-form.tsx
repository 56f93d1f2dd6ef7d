import { type FormEvent, useState } from 'react'
import { call } from '../api/client.ts'
import type { Budget } from '../api/types.ts'
import { isAmount } from '../format.ts'
import { Field, NO_AMOUNT } from './field.tsx'
import { Problem } from './states.tsx'
import { say } from './toasts.tsx'

const limits = [
  ['per_call', 'Per call', 'the most that one call may cost'],
  ['per_seller', 'Per seller', 'the most that one seller may be paid per day'],
  ['per_day', 'Per day', ''],
  ['per_month', 'Per month', ''],
  ['auto_approve_below', 'Ask me from', 'a call that costs this or more waits for you; empty: never ask'],
] as const

type Name = (typeof limits)[number][0]

/** The budget rules that apply to every signed payment. */
export function BudgetForm({ budget, onSaved }: { budget: Budget; onSaved(): void }) {
  const [loaded, setLoaded] = useState(budget)
  const [values, setValues] = useState<Record<Name, string>>(
    () => Object.fromEntries(limits.map(([name]) => [name, budget[name] ?? ''])) as Record<Name, string>,
  )
  const [allow, setAllow] = useState(budget.allow.join('\n'))
  const [deny, setDeny] = useState(budget.deny.join('\n'))
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)
  const isWrong = (name: Name) => values[name].trim() !== '' && !isAmount(values[name])

  async function save(event: FormEvent) {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    const next = {
      ...Object.fromEntries(limits.map(([name]) => [name, values[name].trim() === '' ? null : values[name].trim()])),
      allow: lines(allow),
      deny: lines(deny),
    }
    // What is as it was loaded may have been changed elsewhere since.
    const body = Object.fromEntries(
      Object.entries(next).filter(([name, value]) => String(value) !== String(loaded[name as keyof Budget])),
    )
    try {
      setLoaded(await call('/budget', { method: 'PUT', body }))
      say('Saved. The new limits apply now.')
      onSaved()
    } catch (reason) {
      setError(reason as Error)
    }
    setBusy(false)
  }

  return (
    <form className="form" onSubmit={save}>
      <div className="fields">
        {limits.map(([name, label, hint]) => (
          <Field
            key={name}
            label={`${label}, ${budget.symbol}`}
            hint={hint === '' ? undefined : hint}
            error={isWrong(name) && NO_AMOUNT}
          >
            <input
              inputMode="decimal"
              value={values[name]}
              placeholder={name === 'auto_approve_below' ? 'never' : 'no limit'}
              onChange={(event) => setValues({ ...values, [name]: event.target.value })}
            />
          </Field>
        ))}
      </div>
      <Field label="Buy only from" hint="peer ids or agent ids, one per line; empty: anybody">
        <textarea rows={2} value={allow} onChange={(event) => setAllow(event.target.value)} />
      </Field>
      <Field label="Never buy from">
        <textarea rows={2} value={deny} onChange={(event) => setDeny(event.target.value)} />
      </Field>
      <button type="submit" className="primary" disabled={busy || limits.some(([name]) => isWrong(name))}>
        {busy ? 'Saving…' : 'Save the budget'}
      </button>
      {error !== undefined && <Problem error={error} />}
    </form>
  )
}

function lines(text: string): string[] {
  return text
    .split(/[\s,]+/)
    .map((line) => line.trim())
    .filter((line) => line !== '')
}
