import { type FormEvent, useState } from 'react'
import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Webhook, WebhookTest } from '../api/types.ts'
import { Ago, Id } from './bits.tsx'
import { Confirm } from './confirm.tsx'
import { Field } from './field.tsx'
import { Problem, Show } from './states.tsx'
import { say } from './toasts.tsx'

const SECRET_BYTES = 24

/** Webhooks: addresses that receive the node's events, even without an open browser. */
export function Webhooks() {
  const known = useResource('/webhooks', (signal) => call<Webhook[]>('/webhooks', { signal }), { everyMs: 30_000 })
  return (
    <Show of={known} what="Webhooks are">
      {(list) => (
        <>
          <ul className="plain-list" aria-label="Webhooks">
            {list.map((webhook) => (
              <Item key={webhook.id} webhook={webhook} reload={known.reload} />
            ))}
          </ul>
          <NewWebhook onMade={known.reload} />
        </>
      )}
    </Show>
  )
}

function Item({ webhook, reload }: { webhook: Webhook; reload(): void }) {
  const path = `/webhooks/${encodeURIComponent(webhook.id)}`
  const [error, setError] = useState<Error>()

  async function test() {
    setError(undefined)
    try {
      const { delivered, status, error } = await call<WebhookTest>(`${path}/test`, { method: 'POST' })
      say(
        delivered
          ? 'The webhook accepted the test message.'
          : `The webhook did not accept the test message: ${error ?? `it answered ${status}`}.`,
      )
      reload()
    } catch (reason) {
      setError(reason as Error)
    }
  }

  return (
    <li className="webhook">
      <span className="webhook-url">
        <code>{webhook.url}</code>
        <span className="row-meta block">
          {webhook.events.join(', ')} · {webhook.delivered} delivered
          {webhook.pending > 0 && `, ${webhook.pending} waiting`}
          {webhook.last_attempt_at !== undefined && (
            <>
              {' '}
              · <Ago iso={webhook.last_attempt_at} />
            </>
          )}
        </span>
        {webhook.last_error !== undefined && <span className="row-meta block bad-text">{webhook.last_error}</span>}
        {error !== undefined && <Problem error={error} />}
      </span>
      <span className="actions">
        <button type="button" onClick={test}>
          Test
        </button>
        {webhook.source === 'api' ? (
          <Confirm
            action="Remove"
            title={`Remove ${webhook.url}?`}
            className="quiet"
            onConfirm={async () => {
              await call(path, { method: 'DELETE' })
              reload()
            }}
          >
            <p>Waiting messages are dropped.</p>
          </Confirm>
        ) : (
          <span className="muted">in config.yaml</span>
        )}
      </span>
    </li>
  )
}

function NewWebhook({ onMade }: { onMade(): void }) {
  const [secret, setSecret] = useState<string>()
  const [error, setError] = useState<Error>()

  async function add(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = event.currentTarget
    const data = new FormData(form)
    const events = String(data.get('events')).split(',')
    const made = newSecret()
    setError(undefined)
    try {
      await call('/webhooks', { method: 'POST', body: { url: String(data.get('url')).trim(), events, secret: made } })
      setSecret(made)
      form.reset()
      onMade()
    } catch (reason) {
      setError(reason as Error)
    }
  }

  return (
    <details>
      <summary>Add a webhook</summary>
      <form className="form" onSubmit={add}>
        <Field label="Address" hint="https URL on the public internet. Write other URLs into config.yaml.">
          <input name="url" type="url" required maxLength={2048} placeholder="https://example.org/stoa" />
        </Field>
        <Field label="Events">
          <select name="events">
            <option value="approval.pending">purchases that wait for approval</option>
            <option value="approval">new approvals and decisions about them</option>
            <option value="approval.pending,order.failed,payment.failed">
              new approvals, and failed orders and payments
            </option>
            <option value="order,payment,workflow,approval">everything but the market</option>
          </select>
        </Field>
        <button type="submit">Add</button>
        {error !== undefined && <Problem error={error} />}
      </form>
      {secret !== undefined && (
        <div className="state" role="status">
          <p className="state-title">The secret is shown only now</p>
          <p>
            <Id value={secret} ends={0} what="secret" />
          </p>
          <p>The receiver checks the signatures of the messages with this secret, by the rules of Standard Webhooks.</p>
        </div>
      )}
    </details>
  )
}

function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES))
  return `whsec_${btoa(String.fromCharCode(...bytes))}`
}
