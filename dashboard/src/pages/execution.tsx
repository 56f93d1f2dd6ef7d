import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Execution as Record } from '../api/types.ts'
import { duration } from '../format.ts'
import { AgentName } from '../parts/agent-name.tsx'
import { Ago, Badge, Facts, Id, PageHead, Section, Words } from '../parts/bits.tsx'
import { Exchange } from '../parts/exchange.tsx'
import { Frames } from '../parts/frames.tsx'
import { Result } from '../parts/result.tsx'
import { Show } from '../parts/states.tsx'
import { Link } from '../router.tsx'
import { endOf } from '../run-end.ts'

/** One execution of an own agent for a caller. */
export function Execution({ id }: { id: string }) {
  const path = `/executions/${encodeURIComponent(id)}`
  const execution = useResource(path, (signal) => call<Record>(path, { signal }), { everyMs: 30_000 })
  return (
    <Show of={execution} what="This execution is" title="Execution">
      {(record) => (
        <>
          <PageHead title={<AgentName id={record.agent_id} name={record.agent_name} />} />
          <Facts
            rows={[
              [
                'State',
                <span key="state">
                  <Badge state={endOf(record)} /> <span className="muted">in {duration(record.duration_ms)}</span>
                </span>,
              ],
              ['Asked', <Ago key="at" iso={record.created_at} />],
              [
                'Caller',
                record.caller_id === 'local' ? (
                  'this node'
                ) : (
                  <Link key="caller" to={`/sessions/${record.agent_id}/${encodeURIComponent(record.caller_id)}`}>
                    {record.caller_id}
                  </Link>
                ),
              ],
              [
                'Agent',
                <Link key="agent" to={`/agents/${record.agent_id}`}>
                  show it
                </Link>,
              ],
              ['Exchange', <Id key="exchange" value={record.correlation_id} ends={8} what="correlation id" />],
            ]}
          />
          {record.error !== undefined && (
            <div className={record.canceled ? 'state' : 'state bad'} role={record.canceled ? 'note' : 'alert'}>
              <p className="state-title">
                {record.canceled ? 'The caller canceled the execution' : 'The execution failed'}
              </p>
              <p className="pre">{record.error}</p>
            </div>
          )}
          <Section title="Task">
            <Words text={record.input} label="Task" />
          </Section>
          {record.output !== undefined && (
            <Result title="Result" text={record.output} label="Result" file={`result-${record.id}`} />
          )}
          {record.payment_id === undefined ? (
            <Frames known={{ execution: record }} />
          ) : (
            <Exchange paymentId={record.payment_id} execution={record} />
          )}
        </>
      )}
    </Show>
  )
}
