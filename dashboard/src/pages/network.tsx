import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import { useStatus } from '../api/status.ts'
import type { NodeStatus, PeerStatus } from '../api/types.ts'
import { duration, ended, sentence } from '../format.ts'
import { Badge, Facts, Id, PageHead, Section } from '../parts/bits.tsx'
import { Said } from '../parts/said.tsx'
import { Empty, Show } from '../parts/states.tsx'
import { isRelayed, Topology } from '../parts/topology.tsx'
import { reachabilityText } from '../reachability.ts'

export function Network() {
  const status = useStatus()
  const peers = useResource('/peers', (signal) => call<PeerStatus[]>('/peers', { signal }), { topics: ['status'] })
  return (
    <>
      <PageHead title="Network" />
      <Show of={status} what="The status is">
        {(node) => <Reach node={node} />}
      </Show>
      <Section title="Peers">
        <Show of={peers} what="Peers are">
          {(list) => (list.length === 0 ? <Alone /> : <Peers peers={list} />)}
        </Show>
      </Section>
    </>
  )
}

function Reach({ node }: { node: NodeStatus }) {
  const { state, addresses = [], relays = [], reason, fix } = node.reachability
  return (
    <>
      <div className={state === 'unreachable' ? 'state bad' : 'state'}>
        <p className="state-title">
          <Badge state={state}>{reachabilityText[state]}</Badge>
        </p>
        {reason !== undefined && (
          <p>
            <Said>{ended(sentence(reason))}</Said>
          </p>
        )}
        {fix !== undefined && (
          <p>
            <Said>{ended(sentence(fix))}</Said>
          </p>
        )}
        {state === 'relayed' && (
          <p className="muted">An open port makes calls faster. Forward TCP port 4001 to this machine.</p>
        )}
      </div>
      <Facts
        rows={[
          ['Peer', <Id key="peer" value={node.peer_id} ends={12} what="peer id" />],
          addresses.length > 0 && ['Reached at', <Lines key="reached" values={addresses} />],
          relays.length > 0 && ['Relays', <Lines key="relays" values={relays} />],
          ['Announces', node.addresses.length === 0 ? 'nothing' : <Lines key="all" values={node.addresses} />],
        ]}
      />
    </>
  )
}

function Lines({ values }: { values: readonly string[] }) {
  return (
    <ul className="lines">
      {values.map((value) => (
        <li key={value}>
          <Id value={value} ends={0} what="address" />
        </li>
      ))}
    </ul>
  )
}

function Alone() {
  return (
    <Empty title="No peer is connected">
      Start the node with <code>--bootstrap</code> and the address of a peer that you know, or set BOOTSTRAP_PEERS.
      Nodes on the same local network find each other automatically.
    </Empty>
  )
}

function Peers({ peers }: { peers: readonly PeerStatus[] }) {
  const sorted = peers.toSorted((a, b) => (a.latency_ms ?? Infinity) - (b.latency_ms ?? Infinity))
  return (
    <>
      <Topology peers={sorted} />
      <div className="table-wrap">
        <table>
          <thead>
            <tr>
              <th scope="col">Peer</th>
              <th scope="col">Connection</th>
              <th scope="col" className="number">
                Latency
              </th>
              <th scope="col" className="extra">
                Software
              </th>
              <th scope="col" className="extra">
                Address
              </th>
            </tr>
          </thead>
          <tbody>
            {sorted.map((peer) => (
              <tr key={peer.peer_id}>
                <th scope="row">
                  <Id value={peer.peer_id} what="peer id" />
                </th>
                <td>
                  {peer.direction === 'inbound' ? 'from it' : 'to it'}
                  {isRelayed(peer) && ', relayed'}
                </td>
                <td className="number">{duration(peer.latency_ms)}</td>
                <td className="extra">{peer.agent_version ?? '–'}</td>
                <td className="wrap extra">
                  <code>{peer.addresses[0] ?? '–'}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}
