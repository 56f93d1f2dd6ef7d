import { type FormEvent, useState } from 'react'
import type { TestResult } from '../api/types.ts'
import { duration } from '../format.ts'
import { Section, Words } from './bits.tsx'
import { Field } from './field.tsx'
import { Problem } from './states.tsx'

type Props = {
  title: string
  hint: string
  /** Undefined if the agent cannot run yet. The form then shows why. */
  run(task: string): Promise<TestResult> | undefined
}

/** Runs an agent once as a test by its seller. */
export function TryOut({ title, hint, run }: Props) {
  const [result, setResult] = useState<TestResult>()
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)

  async function tryIt(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const running = run(String(new FormData(event.currentTarget).get('task')))
    if (running === undefined) return
    setBusy(true)
    setResult(undefined)
    setError(undefined)
    await running.then(setResult, setError)
    setBusy(false)
  }

  return (
    <Section title={title}>
      <form className="form" onSubmit={tryIt}>
        <Field label="Task" hint={hint}>
          <textarea name="task" rows={4} required />
        </Field>
        <button type="submit" disabled={busy}>
          {busy ? 'Running…' : 'Run'}
        </button>
      </form>
      <div role="status">
        {result !== undefined && (
          <>
            <p className="muted">Answered in {duration(result.duration_ms)}.</p>
            <Words text={result.output} label="Result of the test run" />
          </>
        )}
      </div>
      {error !== undefined && <Problem error={error} />}
    </Section>
  )
}
