import { type FormEvent, useState } from 'react'
import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { ApiToken, CreatedToken } from '../api/types.ts'
import { amount, isAmount } from '../format.ts'
import { Ago, Id } from './bits.tsx'
import { Confirm } from './confirm.tsx'
import { Empty, Problem, Show } from './states.tsx'

const scopes: Readonly<Record<ApiToken['scope'], string>> = {
  read: 'look',
  execute: 'look, and run own and free agents',
  spend: 'also pay, within its own budget',
  admin: 'everything',
}

/** API tokens for other programs, each with the least scope that it needs. */
export function Tokens() {
  const tokens = useResource('/tokens', (signal) => call<ApiToken[]>('/tokens', { signal }), { everyMs: 30_000 })
  return (
    <Show of={tokens} what="Tokens are">
      {(list) => {
        const held = list.filter((token) => token.revoked_at === undefined)
        return (
          <>
            {held.length === 0 ? (
              <Empty title="No tokens yet">Give each program its own token with the least power that it needs.</Empty>
            ) : (
              <ul className="cards">
                {held.map((token) => (
                  <li key={token.id} className="step-head">
                    <strong>{token.name}</strong>
                    <span>{token.scope}</span>
                    {token.scope === 'spend' && (
                      <span className="muted">
                        {amount(token.spent)} spent of {token.budget === null ? 'no limit' : amount(token.budget)}
                      </span>
                    )}
                    <span className="muted">
                      created <Ago iso={token.created_at} />
                    </span>
                    <Confirm
                      action="Revoke"
                      title={`Revoke ${token.name}?`}
                      className="quiet"
                      onConfirm={async () => {
                        await call(`/tokens/${encodeURIComponent(token.id)}`, { method: 'DELETE' })
                        tokens.reload()
                      }}
                    >
                      <p>The node refuses this token from now on.</p>
                    </Confirm>
                  </li>
                ))}
              </ul>
            )}
            <NewToken onMade={tokens.reload} />
          </>
        )
      }}
    </Show>
  )
}

function NewToken({ onMade }: { onMade(): void }) {
  const [scope, setScope] = useState<string>('read')
  const [budget, setBudget] = useState('')
  const [made, setMade] = useState<CreatedToken>()
  const [error, setError] = useState<Error>()

  async function make(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = event.currentTarget
    const name = String(new FormData(form).get('name'))
    setError(undefined)
    try {
      const body = { name, scope, ...(scope === 'spend' && { budget }) }
      setMade(await call<CreatedToken>('/tokens', { method: 'POST', body }))
      form.reset()
      onMade()
    } catch (reason) {
      setError(reason as Error)
    }
  }

  return (
    <details className="section">
      <summary>New token</summary>
      <form className="form" onSubmit={make}>
        <div className="fields">
          <label>
            Name
            <input name="name" required maxLength={80} placeholder="my script" />
          </label>
          <label>
            Scope
            <select value={scope} onChange={(event) => setScope(event.target.value)}>
              {Object.entries(scopes).map(([name, text]) => (
                <option key={name} value={name}>
                  {name}: {text}
                </option>
              ))}
            </select>
          </label>
          {scope === 'spend' && (
            <label>
              Total budget, USDC
              <input required inputMode="decimal" value={budget} onChange={(event) => setBudget(event.target.value)} />
            </label>
          )}
        </div>
        <button type="submit" disabled={scope === 'spend' && !isAmount(budget)}>
          Create the token
        </button>
        {error !== undefined && <Problem error={error} />}
      </form>
      {made !== undefined && (
        <div className="state warn" role="status">
          <p className="state-title">The token of {made.name} is shown only now</p>
          <p>
            <Id value={made.token} ends={0} what="token" />
          </p>
        </div>
      )}
    </details>
  )
}
