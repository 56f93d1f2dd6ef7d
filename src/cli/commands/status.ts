import { defined } from '../../lib/defined.ts'
import { pause } from '../../lib/wait.ts'
import type { NodeStatus } from '../../schema/api.ts'
import type { ChannelSums } from '../../schema/channel-record.ts'
import type { Fleet } from '../../schema/fleet.ts'
import { command, flag } from '../command.ts'
import { requireRunningNode } from '../node-access/running-node.ts'
import type { RemoteNode } from '../parts.ts'
import { badge } from '../text/badge.ts'
import { channelsText } from '../text/channel-text.ts'
import { fleetLines } from '../text/fleet-text.ts'
import { searchText } from '../text/market-search-text.ts'
import { reachabilityText } from '../text/reachability-text.ts'
import { shareText } from '../text/start-summary.ts'
import { columns, printableLine, type Style } from '../text/terminal-text.ts'

const WATCH_MS = 2000

export const status = command({
  name: 'status',
  summary: 'Show the state of the running node: peer id, addresses, peers, agents, settlement, processes, workers',
  examples: ['stoa status', 'stoa status --watch', 'stoa status --json | jq .connected_peers'],
  options: { watch: flag('--watch', 'refresh every 2 seconds until Ctrl-C') },
  async run(context, { watch, ...flags }) {
    const { config, secrets } = await context.loadConfig(flags)
    const { node, url } = await requireRunningNode(context, config, secrets)
    const { signal, stdout } = context.io
    for (;;) {
      const state = await node.status({ signal })
      const [fleet, channels] = await Promise.all([fleetOf(node, state, signal), channelsOf(node, { signal, watch })])
      if (watch && stdout.isTty) stdout.write(CLEAR)
      const shown = { ...state, ...defined({ fleet, channels }) }
      if (context.json) watch ? context.print(JSON.stringify(shown)) : context.printJson(shown)
      else
        context.print([
          ...statusLines({ ...state, channels }, url, context.style.stdout),
          ...(fleet ? fleetLines(fleet, context) : []),
        ])
      if (!watch) return
      if (!context.json) context.print(context.style.stdout.dim('\nPress Ctrl-C to leave. The node keeps running.'))
      if (!(await pause(WATCH_MS, signal))) return
    }
  },
})

/** What lies in the channels of the node. Undefined: it has none, or is older, or the token may not see them. */
async function channelsOf(
  node: Pick<RemoteNode, 'channelSums'>,
  { signal, watch }: { signal: AbortSignal; watch: boolean | undefined },
): Promise<ChannelSums | undefined> {
  try {
    const sums = await node.channelSums({ signal })
    return sums.paying.channels + sums.paid.channels === 0 ? undefined : sums
  } catch {
    // Ctrl-C ends a watch after what it has read is shown.
    if (!watch) signal.throwIfAborted()
    return undefined
  }
}

/** Undefined: there is nothing but this node, or the token may not see more. */
async function fleetOf(
  node: Pick<RemoteNode, 'fleet'>,
  { processes, workers }: NodeStatus,
  signal: AbortSignal,
): Promise<Fleet | undefined> {
  if (processes === undefined && workers === undefined) return undefined
  try {
    return await node.fleet({ signal })
  } catch {
    signal.throwIfAborted()
    return undefined
  }
}

/** Moves the cursor to the corner and erases the rest. That flickers less than erasing first. */
const CLEAR = '\u001b[H\u001b[J'

type Shown = NodeStatus & { channels: ChannelSums | undefined }

function statusLines(state: Shown, url: string, style: Style): string[] {
  const { bold, red, yellow } = style
  const { alarms = 0, settlement } = state
  const rows = [
    ['Peer id', state.peer_id],
    // Buyers dial the host of calls, and nodes that name it as a bootstrap peer are met by the host of the market.
    ['Share', shareText(state.addresses)],
    ...(state.market === undefined ? [] : [['Market id', `${state.market.peer_id}, of this process`]]),
    ['API', url],
    ['Peers', `${state.connected_peers} connected`],
    ['Reached', reachabilityText(state.reachability)],
    ...(state.search === undefined || state.search.met > 0 ? [] : [['Market', yellow(searchText(state.search))]]),
    ['Agents', `${state.agents.local} here, ${state.agents.known} known`],
    ['Wallet', `${state.wallet_address} on ${state.network}  ${badge(state.network, style)}`],
    ...(state.wallet_before === undefined
      ? []
      : [['', `another than before: ${printableLine(state.wallet_before, 60)}`]]),
    ...(state.trading?.state === 'stopped'
      ? [['Trading', red(`stopped: ${state.trading.reason}. To fix this: ${state.trading.fix}`)]]
      : []),
    ...(state.chain_wrong === undefined ? [] : [['Chain', red(printableLine(state.chain_wrong, 300))]]),
    ...openFilesRow(state, yellow),
    ...(state.database === undefined ? [] : [['Database', red(`away: ${printableLine(state.database.reason, 300)}`)]]),
    ...(state.refused_change === undefined
      ? []
      : [['Changes', red(`refused within the last minute: ${printableLine(state.refused_change, 300)}`)]]),
    ['Settlement', `${settlement.pending} pending${state.database === undefined ? '' : ', when last known'}`],
    ...(state.channels === undefined ? [] : [['Channels', channelsText(state.channels)]]),
    ...fleetRows(state, yellow),
    ...(alarms === 0 ? [] : [['Alarms', yellow(`${alarms}: stoa alarms list`)]]),
    ['Version', `${state.version}, up ${uptime(state.uptime_seconds)}`],
  ]
  return columns(rows.map(([name = '', value = '']) => [bold(name), value]))
}

function fleetRows({ processes, workers }: NodeStatus, warned: (text: string) => string): string[][] {
  const { alive = 0, missing = 0 } = processes ?? {}
  const lost = missing === 0 ? '' : warned(`, ${missing} lost and not back: stoa doctor`)
  return [
    ...(processes === undefined ? [] : [['Processes', `${alive} on this ledger${lost}`]]),
    ...(workers === undefined
      ? []
      : [['Workers', `${workers.connected} connected, ${workers.running} of ${workers.runs_max} runs`]]),
  ]
}

function openFilesRow({ open_files: files }: NodeStatus, warned: (text: string) => string): string[][] {
  if (files?.max === undefined || files.max >= files.wanted) return []
  return [['Open files', warned(`${files.max} at most, ${files.wanted} are needed: stoa doctor`)]]
}

async function nobodyText(
  node: Pick<Awaited<ReturnType<typeof requireRunningNode>>['node'], 'status'>,
  signal: AbortSignal,
): Promise<string> {
  const { search } = await node.status({ signal })
  return search === undefined ? 'no peers connected' : `no peers connected: ${searchText(search)}`
}

export const peers = command({
  name: 'peers',
  summary: 'List the peers that the running node is connected to',
  examples: ['stoa peers', 'stoa peers --json'],
  async run(context, flags) {
    const { config, secrets } = await context.loadConfig(flags)
    const { node } = await requireRunningNode(context, config, secrets)
    const list = await node.peers({ signal: context.io.signal })
    const rows = list.map(({ peer_id, direction, latency_ms, agent_version, addresses }) => [
      printableLine(peer_id),
      direction,
      latency_ms === undefined ? '' : `${Math.round(latency_ms)} ms`,
      printableLine(agent_version ?? '', 40),
      printableLine(addresses[0] ?? ''),
    ])
    const isAlone = list.length === 0 && !context.json
    context.printResult(list, isAlone ? await nobodyText(node, context.io.signal) : columns(rows))
  },
})

export function uptime(seconds: number): string {
  const [days, hours, minutes] = [seconds / 86_400, (seconds / 3600) % 24, (seconds / 60) % 60].map(Math.floor)
  if (days) return `${days} d ${hours} h`
  if (hours) return `${hours} h ${minutes} min`
  return minutes ? `${minutes} min` : `${Math.floor(seconds)} s`
}
