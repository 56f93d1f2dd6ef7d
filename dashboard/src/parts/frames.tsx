import { type FrameField, framesOf, type KnownExchange } from '../frames.ts'
import { Ago, Badge, Facts, Id } from './bits.tsx'

/** The messages of an exchange with their senders. */
export function Frames({ known }: { known: KnownExchange }) {
  const frames = framesOf(known)
  if (frames.length === 0) return null
  const own = known.payment?.direction === 'in' || known.execution !== undefined ? 'seller' : 'buyer'
  return (
    <details className="section fold">
      <summary>
        <h2>Exchange, frame by frame</h2> <span className="muted">{frames.length} frames</span>
      </summary>
      <ol className="steps" aria-label="Frames, in their order">
        {frames.map(({ type, from, at, note, fields }) => (
          <li key={type} className="step">
            <div className="step-head">
              <code>{type}</code>
              {from !== 'nobody' && <Badge state={from}>{from === own ? `${from}: this node` : from}</Badge>}
              {at !== undefined && <Ago iso={at} />}
            </div>
            {note !== undefined && <p className="muted">{note}</p>}
            <Facts rows={fields.map((field) => [field[0], <Value key={field[0]} field={field} />])} />
          </li>
        ))}
      </ol>
      <p className="hint">
        These frames are built from the ledger. The ledger stores payments and results. It does not store output during
        the work, or frames that were sent again after a lost connection or an expired challenge.
      </p>
    </details>
  )
}

function Value({ field: [name, value] }: { field: FrameField }) {
  if (value === null) return <span className="muted">not stored</span>
  return /^0x[0-9a-f]{40,}$/i.test(value) ? <Id value={value} ends={10} what={name} /> : <span>{value}</span>
}
