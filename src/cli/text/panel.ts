import { stoaVersion } from '../../lib/version.ts'
import type { NodeStatus } from '../../schema/api.ts'
import { networkText } from '../../schema/network-kind.ts'
import type { Panel } from '../../tui/screen-state.ts'
import { uptime } from '../commands/status.ts'
import { badge } from './badge.ts'
import type { Style } from './terminal-text.ts'

/** The node's state in two rows, the most important parts first. */
export function panelOf(
  state: NodeStatus,
  { balance, waiting }: { balance: string /** Number of pending approvals. */; waiting: number },
  style: Style,
): Panel {
  const { bold, green, yellow, dim } = style
  const { agents, alarms = 0, processes, workers, settlement, connected_peers: peers, wallet_address: wallet } = state
  const well = alarms === 0
  return {
    well,
    parts: [
      [
        bold(`stoa ${state.version}`),
        (well ? green : yellow)(`● up ${uptime(state.uptime_seconds)}`),
        `${peers} ${peers === 1 ? 'peer' : 'peers'}`,
        `${agents.local} ${agents.local === 1 ? 'agent' : 'agents'} here, ${agents.known} known`,
      ],
      [
        ...(waiting === 0 ? [] : [yellow(`${waiting} to approve: /approve`)]),
        balance === '' ? dim('balance unknown') : bold(balance),
        `${wallet.slice(0, 6)}…${wallet.slice(-4)}`,
        badge(state.network, style),
        networkText(state.network),
        `${settlement.pending} to settle`,
        ...(processes === undefined ? [] : [machinesText(processes, { yellow })]),
        ...(workers === undefined ? [] : [`workers ${workers.running} of ${workers.runs_max}`]),
        ...(well ? [] : [yellow(`${alarms} ${alarms === 1 ? 'alarm' : 'alarms'}: /alarms list`)]),
      ],
    ],
  }
}

function machinesText(
  { alive, missing }: NonNullable<NodeStatus['processes']>,
  { yellow }: Pick<Style, 'yellow'>,
): string {
  const text = `${alive} ${alive === 1 ? 'process' : 'processes'}`
  return missing === 0 ? text : yellow(`${text}, ${missing} missing: /doctor`)
}

/** No node answers: it is starting, did not start or is gone. */
export function absentPanel(
  dataDir: string,
  how: 'starting' | 'refused' | 'gone',
  { bold, dim, red, yellow }: Style,
): Panel {
  const text = {
    starting: yellow('● the node starts'),
    refused: red('● the node did not start: see the error below'),
    gone: yellow('● the node does not answer'),
  }[how]
  return { well: false, parts: [[bold(`stoa ${stoaVersion()}`), text], [dim(dataDir)]] }
}
