import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import { useStatus } from '../api/status.ts'
import type { Budget } from '../api/types.ts'
import { networkName, span } from '../format.ts'
import { Facts, Id, PageHead, Section } from '../parts/bits.tsx'
import { BrowserNotices } from '../parts/browser-notices.tsx'
import { BudgetForm } from '../parts/budget-form.tsx'
import { Configured } from '../parts/configured.tsx'
import { Show } from '../parts/states.tsx'
import { Tokens } from '../parts/tokens.tsx'
import { Webhooks } from '../parts/webhooks.tsx'

export function Settings() {
  const status = useStatus()
  const budget = useResource('/budget', (signal) => call<Budget>('/budget', { signal }), { everyMs: 60_000 })
  return (
    <>
      <PageHead title="Settings" />
      <div className="columns">
        <div>
          <Section title="Budget">
            <Show of={budget} what="Budget rules are">
              {(known) => <BudgetForm budget={known} onSaved={budget.reload} />}
            </Show>
          </Section>
        </div>
        <div>
          <Section title="Notices">
            <p className="hint">Choose how the node tells you that a purchase waits for your approval.</p>
            <BrowserNotices />
            <Webhooks />
          </Section>
          <Section title="API tokens">
            <Tokens />
          </Section>
          <Section title="Node">
            <Show of={status} what="The status is">
              {(node) => (
                <Facts
                  rows={[
                    ['Version', node.version],
                    ['Running for', span(node.uptime_seconds)],
                    ['Network', networkName(node.network)],
                    ['Peer', <Id key="peer" value={node.peer_id} ends={12} what="peer id" />],
                    [
                      'API',
                      <a key="docs" href="/docs">
                        documentation
                      </a>,
                    ],
                  ]}
                />
              )}
            </Show>
          </Section>
        </div>
      </div>
      <Section title="Configuration">
        <Configured />
      </Section>
    </>
  )
}
