import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import { ApiError } from '../../http/client/api-error.ts'
import { CodedError, reasonOf } from '../../lib/errors.ts'
import { dataFile } from '../../store/data-dir.ts'
import { isAlive, lockHolder } from '../../store/lock.ts'
import { type NodeFile, readNodeFile } from '../../store/node-file.ts'
import { readSecretFile } from '../../store/secret-file.ts'
import type { Context, RemoteAddress } from '../command.ts'
import { CliError } from '../exit-code.ts'
import type { RemoteNode } from '../parts.ts'

/** A node answers within milliseconds, but within seconds while it starts on a busy machine. */
const ANSWER_MS_MAX = 10_000

export type RunningNode = {
  /** The content of its node file. For a node elsewhere, built from its answers and without a pid. */
  file: Omit<NodeFile, 'pid'> & { pid: number | undefined }
  url: string
  token: string | undefined
  node: RemoteNode
  network: string
}

type Asking = Pick<Context, 'parts' | 'io'> & Partial<Pick<Context, 'remote'>>

/**
 * Finds the node on the data directory: `node.json` names its address, and its API confirms that it runs.
 *
 * A node file outlives a killed node, and its port may then belong to another node. The answering node must have the
 * peer id of the file. Otherwise another owner's wallet would pay.
 *
 * @throws CliError 'NODE_UNREACHABLE' if a process holds the directory but does not answer; ApiError for a refused token
 */
export async function findRunningNode(
  context: Asking,
  config: Pick<Config, 'dataDir'>,
  secrets: Pick<Secrets, 'apiToken'>,
): Promise<RunningNode | undefined> {
  if (context.remote !== undefined) return nodeElsewhere(context, context.remote)
  const file = await readNodeFile(config.dataDir)
  const holder = lockHolder(config.dataDir)
  if (file === undefined || !isAlive(file.pid)) return undefined
  if (file.api_url === undefined) {
    if (holder !== file.pid) return undefined
    throw new CliError(
      'NODE_UNREACHABLE',
      `another stoa command (pid ${file.pid}) uses ${config.dataDir}: try again when it ends`,
    )
  }
  const token = secrets.apiToken ?? (await readSecretFile(dataFile(config.dataDir, 'apiToken')))?.trim()
  const timeout = AbortSignal.timeout(ANSWER_MS_MAX)
  try {
    const node = await context.parts.connect(file.api_url, token)
    const signal = AbortSignal.any([context.io.signal, timeout])
    const { peer_id, network } = await node.status({ signal })
    return peer_id === file.peer_id ? { file, url: file.api_url, token, node, network } : undefined
  } catch (error) {
    context.io.signal.throwIfAborted()
    if (holder !== file.pid) return undefined
    if (error instanceof ApiError && error.status === 401) throw error
    throw new CliError(
      'NODE_UNREACHABLE',
      `stoa (pid ${file.pid}) runs on ${config.dataDir}, but its API at ${file.api_url} does not answer: ${whyNot(error, timeout)}`,
      { cause: error },
    )
  }
}

/** Returns the running node. @throws CliError 'NODE_UNREACHABLE' if there is none */
export async function requireRunningNode(
  context: Asking,
  config: Pick<Config, 'dataDir'>,
  secrets: Pick<Secrets, 'apiToken'>,
): Promise<RunningNode> {
  const running = await findRunningNode(context, config, secrets)
  if (running !== undefined) return running
  throw new CliError('NODE_UNREACHABLE', `no Stoa node is running on ${config.dataDir}: start one with stoa start`)
}

/** Connects to a node by its address. @throws CliError 'NODE_UNREACHABLE'; ApiError for a refused token */
async function nodeElsewhere({ parts, io }: Asking, { url, token }: RemoteAddress): Promise<RunningNode> {
  const node = await parts.connect(url, token)
  const timeout = AbortSignal.timeout(ANSWER_MS_MAX)
  const signal = AbortSignal.any([io.signal, timeout])
  try {
    const { peer_id, network, addresses, uptime_seconds } = await node.status({ signal })
    const started_at = new Date(parts.clock.now() - uptime_seconds * 1000).toISOString()
    return { file: { pid: undefined, api_url: url, peer_id, addresses, started_at }, url, token, node, network }
  } catch (error) {
    io.signal.throwIfAborted()
    if (error instanceof CodedError && error.code !== 'NODE_UNREACHABLE') throw error
    const why = `the node at ${url} does not answer: ${whyNot(error, timeout)}`
    throw new CliError('NODE_UNREACHABLE', `${why}; check --api-url`, { cause: error })
  }
}

function whyNot(error: unknown, timeout: AbortSignal): string {
  return timeout.aborted ? `no answer in ${ANSWER_MS_MAX / 1000} s` : reasonOf(error)
}
