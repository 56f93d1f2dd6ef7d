import type { Settings } from '../../config/settings.ts'
import type { Context } from '../command.ts'
import type { RemoteNode } from '../parts.ts'
import { tellMoney } from '../text/badge.ts'
import { type RunningNode, requireRunningNode } from './running-node.ts'

/** The API of the node on the command's data directory. @throws CliError 'NODE_UNREACHABLE' */
export async function remoteNode(context: Context, flags: Settings): Promise<RemoteNode> {
  return (await running(context, flags)).node
}

/** The same node, for a command that shows amounts. First says whether the amounts are test money (D37). */
export async function moneyNode(context: Context, flags: Settings): Promise<RemoteNode> {
  const { node, network } = await running(context, flags)
  tellMoney(context, network)
  return node
}

async function running(context: Context, flags: Settings): Promise<RunningNode> {
  const { config, secrets } = await context.loadConfig(flags)
  return requireRunningNode(context, config, secrets)
}
