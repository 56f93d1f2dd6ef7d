import { useWaiting } from '../api/approvals.ts'
import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import { useStatus } from '../api/status.ts'
import type { NodeStatus, WalletBalance } from '../api/types.ts'
import { amount, networkName, short } from '../format.ts'
import { Link } from '../router.tsx'

const BALANCE_MS = 60_000

/** The header of every page: the node's owner, whether its money is real (D37), and its balance. */
export function Header() {
  const status = useStatus()
  const balance = useResource('/wallet/balance', (signal) => call<WalletBalance>('/wallet/balance', { signal }), {
    topics: ['payment'],
    everyMs: BALANCE_MS,
  })
  const waiting = useWaiting().data?.items.length ?? 0
  const node = status.data
  if (node === undefined) return <div className="top" />
  return (
    <section className="top" aria-label="This node">
      <Link
        to="/network"
        className={node.name === undefined ? 'top-name none' : 'top-name'}
        title={`Peer ${node.peer_id}`}
      >
        {node.name ?? short(node.peer_id)}
      </Link>
      <MoneyKind node={node} />
      <span className="top-space" />
      {waiting > 0 && (
        <Link to="/approvals" className="top-waiting">
          {waiting} to approve
        </Link>
      )}
      <Link to="/wallet" className="top-balance" title="Balance of the wallet">
        <span className="hidden">Balance </span>
        {balance.data === undefined ? (
          <span className="muted">{balance.error === undefined ? '–' : 'balance unknown'}</span>
        ) : (
          amount(balance.data.balance, balance.data.symbol)
        )}
      </Link>
    </section>
  )
}

function MoneyKind({ node: { network, network_kind: kind } }: { node: NodeStatus }) {
  const name = networkName(network)
  const title = kind === 'test' ? `${name}: amounts are test money` : `${name}: amounts are real money`
  return (
    <span className={`kind ${kind}`} title={title}>
      {kind === 'test' ? 'TEST' : 'LIVE'}
      <span className="kind-network"> {name}</span>
    </span>
  )
}
