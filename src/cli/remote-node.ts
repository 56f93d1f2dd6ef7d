import type { Settings } from '../config/settings.ts'
import type { Context } from './command.ts'
import type { RemoteNode } from './parts.ts'
import { requireRunningNode } from './running-node.ts'

/** The API of the node that runs on the command's data directory. @throws CliError 'NODE_UNREACHABLE' */
export async function remoteNode(context: Context, flags: Settings): Promise<RemoteNode> {
  const { config, secrets } = await context.loadConfig(flags)
  const { node } = await requireRunningNode(context, config, secrets)
  return node
}
