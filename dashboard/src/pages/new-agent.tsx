import { useRef } from 'react'
import { call } from '../api/client.ts'
import type { NewAgent as Definition, Listing, TestResult } from '../api/types.ts'
import { type AgentFields, AgentForm, fieldsOf } from '../parts/agent-form.tsx'
import { PageHead } from '../parts/bits.tsx'
import { say } from '../parts/toasts.tsx'
import { TryOut } from '../parts/try-out.tsx'
import { navigate } from '../router.tsx'

export function NewAgent() {
  const form = useRef<HTMLFormElement>(null)

  /** Runs the agent as typed, before it is saved. The form shows missing fields. */
  function tryOut(task: string): Promise<TestResult> | undefined {
    if (form.current === null || !form.current.reportValidity()) return undefined
    const agent = definitionOf(fieldsOf(form.current))
    return call<TestResult>('/agents/try', { method: 'POST', body: { agent, task } })
  }

  return (
    <>
      <PageHead title="Add an agent" />
      <div className="columns">
        <AgentForm
          agent={undefined}
          action="Put it on the market"
          form={form}
          onSave={async (fields) => {
            const { id } = await call<Listing>('/agents', { method: 'POST', body: definitionOf(fields) })
            say(`${fields.name} is on the market.`)
            navigate(`/agents/${id}`)
          }}
        />
        <div className="beside">
          <TryOut
            title="Test the agent before you list it"
            hint="The test uses the settings of the form. The test is not public, costs nothing and leaves no record."
            run={tryOut}
          />
        </div>
      </div>
    </>
  )
}

function definitionOf({ name, description, tags, ...rest }: AgentFields): Definition {
  const given = Object.entries(rest).filter(([, value]) => value !== undefined)
  return { name, description, ...(tags.length > 0 && { tags }), ...Object.fromEntries(given) }
}
