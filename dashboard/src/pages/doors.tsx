import { useState } from 'react'
import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import { useStatus } from '../api/status.ts'
import type { Doors as DoorsRecord } from '../api/types.ts'
import { doorClients, openAiSnippet } from '../door-clients.ts'
import { amount, count, ended } from '../format.ts'
import { Badge, Facts, Id, PageHead, Section } from '../parts/bits.tsx'
import { TestMark, TestRuns } from '../parts/door-tests.tsx'
import { Field } from '../parts/field.tsx'
import { Snippet } from '../parts/snippet.tsx'
import { Empty, Show } from '../parts/states.tsx'
import { Link } from '../router.tsx'

type DoorView = DoorsRecord['doors'][number]

const names: Record<DoorView['door'], string> = {
  libp2p: 'Peer to peer',
  http: 'x402 over HTTP',
  mcp: 'MCP tools',
  a2a: 'A2A',
}
const clientsOf: Record<DoorView['door'], string> = {
  libp2p: 'other Stoa nodes',
  http: 'any client of x402',
  mcp: 'programs with an MCP client',
  a2a: 'agents that speak A2A',
}

/** The ways by which others buy from this node, and by which programs of its operator buy. */
export function Doors() {
  const doors = useResource('/doors', (signal) => call<DoorsRecord>('/doors', { signal }), {
    topics: ['payment', 'listing'],
    everyMs: 15_000,
  })
  return (
    <>
      <PageHead title="Doors" />
      <p className="hint">
        Other nodes buy your agents peer to peer. With the public listener, programs that know nothing of Stoa buy them
        too. The OpenAI door lets your own programs buy from the market.
      </p>
      <Show of={doors} what="Doors are">
        {(known) => (
          <>
            <Section title="Where others buy">
              <Ways doors={known.doors} />
            </Section>
            <Section title="Give an address away">
              <Addresses known={known} />
            </Section>
            {known.doors.some(({ door, open }) => door === 'http' && open) && (
              <TestRuns known={known} onTested={doors.reload} />
            )}
            <Section title="Where your programs buy">
              <OpenAi openai={known.openai} api={known.api} />
            </Section>
          </>
        )}
      </Show>
    </>
  )
}

function Ways({ doors }: { doors: DoorView[] }) {
  return (
    <div className="table-wrap">
      <table className="stacked">
        <thead>
          <tr>
            <th scope="col">Door</th>
            <th scope="col">State</th>
            <th scope="col">Address</th>
            <th scope="col" className="number">
              Paid calls
            </th>
            <th scope="col" className="number">
              Earned
            </th>
          </tr>
        </thead>
        <tbody>
          {doors.map((one) => (
            <tr key={one.door}>
              <th scope="row" className="wrap">
                {names[one.door]}
                <span className="figure-note">for {clientsOf[one.door]}</span>
              </th>
              <td data-column="State">
                <Badge state={one.open ? 'open' : 'closed'} tone={one.open ? 'good' : 'plain'} />
              </td>
              <td data-column="Address" className="wrap">
                <Address of={one} />
              </td>
              <td data-column="Paid calls" className="number">
                {count(one.calls)}
              </td>
              <td data-column="Earned" className="number">
                {amount(one.earned)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Address({ of: { open, url, addresses = [], why, fix } }: { of: DoorView }) {
  if (!open) return <Closed why={why} fix={fix} />
  const [shown = '', ...others] = url === undefined ? addresses : [url]
  return (
    // One element: on a narrow screen a cell is a grid of its name and its content.
    <div>
      <Id value={shown} ends={0} what="address" />
      {others.length > 0 && (
        <span className="figure-note">
          and {others.length} more under <Link to="/network">Network</Link>
        </span>
      )}
    </div>
  )
}

function Closed({ why, fix }: { why: string | undefined; fix: string | undefined }) {
  return (
    <>
      {why !== undefined && ended(why)} {fix !== undefined && <>To open it, {ended(fix)}</>}
    </>
  )
}

/** One agent, for one kind of client, with what the last test found at that address. */
function Addresses({ known }: { known: DoorsRecord }) {
  const network = useStatus().data?.network ?? ''
  const [agentId, setAgentId] = useState<string>()
  const [clientId, setClientId] = useState(doorClients[0]!.id)
  const sold = known.doors.find(({ door }) => door === 'libp2p')?.agents ?? []
  const client = doorClients.find(({ id }) => id === clientId)!
  const door = known.doors.find((one) => one.door === client.door)
  if (sold.length === 0) {
    return (
      <Empty title="No agent is for sale">
        <p>
          Put one on the market under <Link to="/agents/new">Add an agent</Link>.
        </p>
      </Empty>
    )
  }
  const chosen = sold.find(({ agent_id }) => agent_id === agentId) ?? sold[0]!
  const agent = door?.agents.find(({ agent_id }) => agent_id === chosen.agent_id)
  return (
    <>
      <Field label="Agent">
        <select value={chosen.agent_id} onChange={(event) => setAgentId(event.target.value)}>
          {sold.map(({ agent_id, agent_name }) => (
            <option key={agent_id} value={agent_id}>
              {agent_name}
            </option>
          ))}
        </select>
      </Field>
      <fieldset className="choices" aria-label="Kind of client">
        {doorClients.map(({ id, name }) => (
          <button type="button" key={id} aria-pressed={id === clientId} onClick={() => setClientId(id)}>
            {name}
          </button>
        ))}
      </fieldset>
      {door?.open === true && agent !== undefined ? (
        <>
          <Snippet text={client.snippet(agent, network)} label={`For ${client.name}`} />
          {door.door !== 'libp2p' && <TestMark tests={known.tests} door={door.door} agentId={agent.agent_id} />}
          {client.door === 'http' && agent.stream_url !== undefined && (
            <p className="hint">
              Shown while it works, and paid before it begins: <Id value={agent.stream_url} ends={0} what="address" />
            </p>
          )}
        </>
      ) : (
        <Empty title={`${names[client.door]} is closed`}>
          <Closed why={door?.why} fix={door?.fix} />
        </Empty>
      )}
    </>
  )
}

function OpenAi({ openai, api }: Pick<DoorsRecord, 'openai' | 'api'>) {
  const key = api.needs_token ? 'a token of this node, under Settings' : 'any text, or a token of this node'
  return (
    <>
      <Facts
        rows={[
          [
            'OpenAI door',
            <Badge key="state" state={openai.open ? 'open' : 'closed'} tone={openai.open ? 'good' : 'plain'} />,
          ],
          !openai.open && ['To open it', ended(openai.fix ?? '')],
          openai.url !== undefined && ['Base URL', <Id key="url" value={openai.url} ends={0} what="base URL" />],
          openai.open && ['API key', key],
          openai.open && ['Most for one call of auto', amount(openai.max_price)],
          [
            'Spent today',
            `${amount(openai.spent_today)} of ${amount(openai.daily_budget)}, without a token of their own`,
          ],
          ['Spent in all', amount(openai.spent)],
          api.url !== undefined && ['MCP, to buy', <Id key="mcp" value={`${api.url}/mcp`} ends={0} what="address" />],
        ]}
      />
      {openai.url !== undefined && <Snippet text={openAiSnippet(openai.url)} label="For programs of yours" />}
    </>
  )
}
