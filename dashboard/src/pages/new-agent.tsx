import { call } from '../api/client.ts'
import type { NewAgent as Definition, Listing } from '../api/types.ts'
import { AgentForm } from '../parts/agent-form.tsx'
import { PageHead } from '../parts/bits.tsx'
import { say } from '../parts/toasts.tsx'
import { navigate } from '../router.tsx'

export function NewAgent() {
  return (
    <>
      <PageHead title="Add an agent" />
      <AgentForm
        agent={undefined}
        action="Put it on the market"
        onSave={async ({ name, description, price, model, tags, timeout_seconds }) => {
          const body: Definition = {
            name,
            description,
            price,
            ...(model !== undefined && { model }),
            ...(tags.length > 0 && { tags }),
            ...(timeout_seconds !== undefined && { timeout_seconds }),
          }
          const { id } = await call<Listing>('/agents', { method: 'POST', body })
          say(`${name} is on the market.`)
          navigate(`/agents/${id}`)
        }}
      />
    </>
  )
}
