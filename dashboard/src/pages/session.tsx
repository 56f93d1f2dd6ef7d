import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { SessionRecord } from '../api/types.ts'
import { amount, duration } from '../format.ts'
import { AgentName } from '../parts/agent-name.tsx'
import { Ago, Badge, PageHead, Words } from '../parts/bits.tsx'
import { Show } from '../parts/states.tsx'
import { books } from '../payment-words.ts'
import { Link } from '../router.tsx'
import { endOf } from '../run-end.ts'

/** The messages between one caller and one agent. */
export function Session({ id, sub }: { id: string; sub: string }) {
  const path = `/sessions/${encodeURIComponent(id)}/${encodeURIComponent(sub)}`
  const session = useResource(path, (signal) => call<SessionRecord>(`${path}?limit=100`, { signal }), {
    topics: ['order', 'payment'],
  })
  return (
    <>
      <PageHead title={<AgentName id={id} />} />
      <p className="muted wrap">
        with {sub === 'local' ? 'this node' : sub} · <Link to={`/sessions?agent=${id}`}>all callers</Link>
      </p>
      <Show of={session} what="This session is">
        {({ exchanges }) => (
          <ol className="talk">
            {exchanges.toReversed().map((one) => (
              <li key={one.correlation_id}>
                <p className="muted">
                  <Ago iso={one.created_at} /> · {duration(one.duration_ms)}
                  {one.payment !== undefined && (
                    <>
                      {' · '}
                      <Link to={`/payments/${one.payment.payment_id}`}>
                        {amount(one.payment.amount)} {books[one.payment.book].word}
                      </Link>
                    </>
                  )}
                  {one.error !== undefined && (
                    <>
                      {' · '}
                      <Badge state={endOf(one)} />
                    </>
                  )}
                </p>
                <Words text={one.input} label="Task" />
                {one.output !== null && <Words text={one.output} label="Answer" />}
                {one.error !== undefined && <p className={one.canceled ? 'muted pre' : 'bad-text pre'}>{one.error}</p>}
              </li>
            ))}
          </ol>
        )}
      </Show>
    </>
  )
}
