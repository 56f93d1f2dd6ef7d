import type { ReactNode } from 'react'
import type { OwnAgent } from '../api/types.ts'

export type Kind = 'model' | 'builtin' | 'own'

/** The ways in which an agent can run. */
export const kinds: Readonly<Record<Kind, { name: string; text: string; details?: ReactNode }>> = {
  model: { name: 'Language model', text: 'A model with your own instructions, which nobody else sees.' },
  builtin: { name: 'Built in', text: 'Comes with the node and needs no model or key.' },
  own: {
    name: 'Program or service',
    text: 'Your own program, a web service, a tool of an MCP server, or a remote agent that speaks A2A.',
    details: (
      <div className="state">
        <p className="state-title">Set this up on the machine of the node</p>
        <p>
          Only the operator may choose programs and keys on that machine, so no page and no API token can set them. In a
          terminal on that machine:
        </p>
        <pre>{`stoa agent config add --name Translator --price 0.01 \\
  --description "Translates into French." \\
  --command python3 --command agent.py`}</pre>
        <p>
          <code>stoa sell</code> makes agents of a service that exists: an MCP server, an OpenAPI document, a model
          server.
        </p>
        <p>
          Or write the agent into <code>agents.yaml</code> in the data directory, with <code>command</code>,{' '}
          <code>http</code>, <code>module</code>, <code>a2a</code>, <code>mcp_tool</code>, <code>operation</code> or{' '}
          <code>worker</code>; with <code>max_price</code> the remote agent may be a paid agent. The agent appears under
          My agents after a restart of the node.
        </p>
      </div>
    ),
  },
}

export function kindOf({ runs, model }: OwnAgent): Kind {
  if (/^(command|http|module|a2a|mcp|operation|worker|function)$/.test(runs)) return 'own'
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
