import { type FormEvent, useState } from 'react'
import { call } from '../api/client.ts'
import { connection } from '../api/connection.ts'
import { forgetToken, keepToken } from '../api/token.ts'
import { Problem } from '../parts/states.tsx'

/** Outside the loopback interface the node requires its token (D16). */
export function Login() {
  const [token, setToken] = useState('')
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)

  async function enter(event: FormEvent) {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      await call('/status', { token: token.trim() })
      keepToken(token.trim())
      connection.unlocked()
    } catch (reason) {
      forgetToken()
      setError(reason as Error)
      setBusy(false)
    }
  }

  return (
    <main className="login">
      <h1>Stoa</h1>
      <p>
        Enter the API token of this node. The token is in the file <code>api.token</code> in the data directory of the
        node (default <code>~/.stoa</code>), unless NODE_API_TOKEN is set.
      </p>
      <form onSubmit={enter}>
        <label>
          API token
          <input
            type="password"
            autoComplete="off"
            required
            value={token}
            onChange={(event) => setToken(event.target.value)}
          />
        </label>
        <button type="submit" className="primary" disabled={busy || token.trim() === ''}>
          {busy ? 'Checking…' : 'Open the dashboard'}
        </button>
      </form>
      {error !== undefined && <Problem error={error} />}
      <p className="hint">The browser keeps the token only until you close this tab.</p>
    </main>
  )
}
