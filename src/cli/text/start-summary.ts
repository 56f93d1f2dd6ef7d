import type { Config } from '../../config/config.ts'
import { checkClosedDoor } from '../../node/public-checks.ts'
import { type AgentDefinition, priceOf } from '../../schema/agent.ts'
import type { Listing } from '../../schema/listing.ts'
import { networkText } from '../../schema/network-kind.ts'
import type { AgentNotice } from '../commands/agent-notices.ts'
import { badge } from './badge.ts'
import { agentPriceText, columns, printableLine, type Style } from './terminal-text.ts'

export type Ready = {
  version: string
  peerId: string
  addresses: string[]
  apiUrl: string | undefined
  walletAddress: string
  config: Config
  listings: Listing[]
  /** The node's own agents, on the market or not. */
  agents: number
  /** Names of those that only other processes of this seller sell. */
  elsewhere: readonly string[]
  /** One sentence each, with the fix. */
  warnings: string[]
}

/** Warnings from the settings alone. `stoa doctor` checks more. */
export function startWarnings(
  config: Config,
  definitions: readonly AgentDefinition[],
  notices: readonly AgentNotice[],
): string[] {
  const warnings = notices.map(({ definition, text, broken, lacks }) => {
    const lead =
      broken || lacks !== undefined
        ? `${printableLine(definition.name, 40)} is not on the market`
        : printableLine(definition.name, 40)
    return `${lead}: ${text}`
  })
  const paid = definitions.filter((agent) => priceOf(agent) > 0n)
  if (paid.length > 0 && config.facilitatorUrl === undefined) {
    warnings.push(
      `no facilitator is set for ${config.network}, so payments of buyers are never settled: set --facilitator-url or FACILITATOR_URL`,
    )
  }
  if (config.api.insecureOpen && !isLoopback(config.api.host)) {
    warnings.push(
      `the API on ${config.api.host} asks for no token, so everybody who reaches it can spend from the wallet: remove --insecure-open-api`,
    )
  }
  const closed = config.public.port === undefined ? checkClosedDoor(config.public) : undefined
  if (closed?.state === 'warn') warnings.push(`${closed.text}: ${closed.fix}`)
  if (config.p2p.bootstrap.length === 0 && !config.p2p.mdns && !config.p2p.publicDht) {
    warnings.push(
      'this node knows no peers and does not look for any: give --bootstrap, or remove --no-mdns or --no-public-dht',
    )
  }
  return warnings
}

export function summaryLines(ready: Ready, style: Style): string[] {
  const { config, listings } = ready
  const rows = [
    ['Peer id', ready.peerId],
    ['Share', shareText(ready.addresses)],
    ['API', ready.apiUrl ?? 'off'],
    ...(ready.apiUrl === undefined ? [] : [['Dashboard', `${ready.apiUrl}/dashboard`]]),
    [
      'Wallet',
      `${ready.walletAddress}  (${config.network}: ${networkText(config.network)})  ${badge(config.network, style)}`,
    ],
    ['Data', config.dataDir],
  ]
  const agents = listings.map((listing) => [
    printableLine(listing.name, 40),
    agentPriceText(listing),
    printableLine(listing.model ?? '', 40),
    listing.id,
  ])
  return [
    style.bold(`stoa ${ready.version} is running`),
    '',
    ...columns(
      rows.map(([name = '', value = '']) => [style.dim(name), value]),
      { indent: 2 },
    ),
    '',
    ...(agents.length === 0 && (ready.agents === 0 || ready.agents > ready.elsewhere.length)
      ? [
          ready.agents === 0
            ? '  No agents to sell. Add one: stoa agent register --help'
            : `  ${ready.agents === 1 ? 'The agent of this node is not' : `None of the ${ready.agents} agents of this node is`} on the market: see stoa agent list`,
        ]
      : [
          style.bold(`  ${agents.length} ${agents.length === 1 ? 'agent' : 'agents'} on the market`),
          ...columns(agents, { indent: 4 }),
        ]),
    ...(ready.elsewhere.length === 0
      ? []
      : [printableLine(`  On sale at other processes of this seller: ${ready.elsewhere.join(', ')}`, 600)]),
    ...(ready.warnings.length === 0
      ? []
      : ['', ...ready.warnings.map((text) => `  ${style.yellow('!')} ${printableLine(text, 600)}`)]),
    '',
    style.dim('  Ctrl-C stops the node.'),
  ]
}

/** The address to share with others. The host lists its best address first. Programs can use the rest. */
export function shareText([best, ...others]: readonly string[]): string {
  if (best === undefined) return 'no address yet'
  return others.length === 0 ? best : `${best}  (${others.length} more: stoa status --json)`
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\./.test(host)
}
