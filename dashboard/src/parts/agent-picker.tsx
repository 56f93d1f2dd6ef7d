import { useEffect, useState } from 'react'
import { page } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Listing } from '../api/types.ts'
import { agentPrice } from '../format.ts'
import { Problem } from './states.tsx'

const FOUND_MAX = 6
const TYPING_MS = 200

/** Searches for an agent and passes the choice to `onPick`. */
export function AgentPicker({ label, onPick }: { label: string; onPick(agent: Listing): void }) {
  const [text, setText] = useState('')
  const [asked, setAsked] = useState('')
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text.trim()), TYPING_MS)
    return () => clearTimeout(timer)
  }, [text])
  const found = useResource(
    `pick ${asked}`,
    (signal) => page<Listing>('/agents', { q: asked, limit: FOUND_MAX }, signal),
    { topics: ['listing'] },
  )
  return (
    <div className="picker">
      <label>
        {label}
        <input
          type="search"
          value={text}
          placeholder="task or name of the agent"
          onChange={(event) => setText(event.target.value)}
        />
      </label>
      {found.error !== undefined && found.data === undefined && <Problem error={found.error} />}
      <ul>
        {found.data?.items.map((agent) => (
          <li key={agent.id}>
            <button type="button" onClick={() => onPick(agent)}>
              <span className="row-title">Add {agent.name}</span>
              <span className="muted">{agent.local ? 'yours' : agentPrice(agent)}</span>
            </button>
          </li>
        ))}
      </ul>
      {found.data?.items.length === 0 && <p className="muted">No agent matches. Use fewer words.</p>}
    </div>
  )
}
