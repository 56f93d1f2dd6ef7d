import type { ReactNode } from 'react'
import type { OwnAgent } from '../api/types.ts'

export type Kind = 'model' | 'builtin' | 'own'

/** The ways in which an agent can run. */
export const kinds: Readonly<Record<Kind, { name: string; text: string; details?: ReactNode }>> = {
  model: { name: 'Language model', text: 'A model with instructions of yours, which nobody else sees.' },
  builtin: { name: 'Built in', text: 'Comes with the node: needs neither model nor key.' },
  own: {
    name: 'Program or service',
    text: 'A program of yours, a web service, or an agent elsewhere that speaks A2A.',
    details: (
      <div className="state">
        <p className="state-title">This is set up on the node’s own machine</p>
        <p>
          What runs there, and the keys it needs, are the operator’s alone: no page and no token can name them. In a
          terminal of that machine:
        </p>
        <pre>{`stoa agent config add --name Translator --price 0.01 \\
  --description "Translates into French." \\
  --command python3 --command agent.py`}</pre>
        <p>
          Or write it into <code>agents.yaml</code> in the data directory, with <code>command</code>, <code>http</code>,{' '}
          <code>module</code> or <code>a2a</code>; with <code>max_price</code> an agent elsewhere may be a paid one. It
          appears under My agents when the node starts again.
        </p>
      </div>
    ),
  },
}

export function kindOf({ runs, model }: OwnAgent): Kind {
  if (/^(command|http|module|a2a|function)$/.test(runs)) return 'own'
  return (model ?? runs).startsWith('builtin/') && model !== undefined ? 'builtin' : 'model'
}

export function AgentKinds({ kind, onChange }: { kind: Kind; onChange(kind: Kind): void }) {
  return (
    <fieldset className="kinds">
      <legend>What does the work?</legend>
      {(Object.keys(kinds) as Kind[]).map((one) => (
        <label key={one} className="kind-choice">
          <input type="radio" name="kind" value={one} checked={kind === one} onChange={() => onChange(one)} />
          <span>
            <strong>{kinds[one].name}</strong>
            <span className="hint block">{kinds[one].text}</span>
          </span>
        </label>
      ))}
    </fieldset>
  )
}
