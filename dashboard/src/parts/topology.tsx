import type { PeerStatus } from '../api/types.ts'
import { duration, short } from '../format.ts'

const WIDTH = 560
const NEAR = 60
const FAR = 150
/** Width of the picture relative to its height. Pages and labels are wide. */
const WIDER = 1.4
const MARGIN = 34
/** Maximum peers in the picture, so that it stays readable. The table shows all peers. */
const SHOWN_MAX = 48

/** True if the connection goes through a relay. */
export function isRelayed({ addresses }: PeerStatus): boolean {
  return addresses.length > 0 && addresses.every((address) => address.includes('/p2p-circuit'))
}

/**
 * This node in the center, with its peers around it. Slower peers are farther away. The table below shows the same as
 * text.
 */
export function Topology({ peers }: { peers: readonly PeerStatus[] }) {
  const shown = peers.slice(0, SHOWN_MAX)
  const slowest = Math.max(50, ...shown.map(({ latency_ms }) => latency_ms ?? 0))
  const places = shown.map((peer, index) => {
    const angle = (index / shown.length) * 2 * Math.PI - Math.PI / 2
    // Latencies range from a millisecond to an hour, so the scale is logarithmic.
    const share = peer.latency_ms === undefined ? 1 : Math.log1p(peer.latency_ms) / Math.log1p(slowest)
    const reach = NEAR + (FAR - NEAR) * share
    return { peer, x: reach * Math.cos(angle) * WIDER, y: reach * Math.sin(angle) }
  })
  const top = Math.min(0, ...places.map(({ y }) => y)) - MARGIN
  const height = Math.max(0, ...places.map(({ y }) => y)) + MARGIN - top
  return (
    <svg
      className="topology"
      role="img"
      aria-label={`This node and ${peers.length} peers`}
      viewBox={`${-WIDTH / 2} ${top} ${WIDTH} ${height}`}
    >
      {places.map(({ peer, x, y }) => (
        <g key={peer.peer_id} className={isRelayed(peer) ? 'peer relayed' : 'peer'}>
          <line x1="0" y1="0" x2={x} y2={y} />
          <circle cx={x} cy={y} r="6" />
          {shown.length <= 16 && (
            <text x={x} y={y + (y > 0 ? 20 : -12)} textAnchor="middle">
              {short(peer.peer_id, 4)}
              {peer.latency_ms === undefined ? '' : ` · ${duration(peer.latency_ms)}`}
            </text>
          )}
        </g>
      ))}
      <circle className="self" r="9" />
    </svg>
  )
}
