import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import { orAborted, within } from '../../lib/wait.ts'
import type { Context } from '../command.ts'
import { createLog } from '../log.ts'
import { checkOpenFiles } from '../open-files.ts'
import type { OwnNode } from '../parts.ts'

/** Time for a node to stop beside what it gives to calls under way. With the default of 2 s, the whole process ends within 5 s. */
const STOP_MS_MAX = 2_500
/** An interrupted start may complete for this long. Then it is stopped halfway. */
const SETTLE_MS_MAX = 2000

/**
 * Runs a short-lived node while `use` runs: no API, no agents, and any free port unless one is given.
 *
 * It takes the lock of the data directory like every node, because it may pay from the wallet.
 */
export async function withOwnNode<T>(
  context: Context,
  { config, secrets, port }: { config: Config; secrets: Secrets; port: number | undefined },
  use: (node: OwnNode) => Promise<T>,
): Promise<T> {
  checkOpenFiles()
  const own: Config = {
    ...config,
    p2p: { ...config.p2p, port: port ?? 0 },
    api: { ...config.api, enabled: false },
    buyer: { ...config.buyer, channels: { ...config.buyer.channels, opensByRule: false } },
    // Info messages would distract from the answer. They are shown if asked for.
    log: { level: config.log.level === 'info' ? 'warn' : config.log.level },
  }
  const { redactor, style, io } = context
  const logger = createLog(own.log.level, io.stderr, { redactor, style: style.stderr })
  const node = await context.parts.createNode(own, secrets, { logger })
  const started = node.start()
  try {
    await orAborted(started, io.signal)
    return await use(node)
  } finally {
    await settled(started)
    await stopNode(node, stopMsMax(own))
  }
}

/** Waits for an interrupted start to complete, up to a limit, so that nothing it still uses is closed. */
export async function settled(started: Promise<unknown>): Promise<void> {
  await within(SETTLE_MS_MAX, started).catch(() => {})
}

/** The longest time that a node may take to stop. */
export function stopMsMax({ seller }: Config): number {
  return seller.drainSeconds * 1000 + STOP_MS_MAX
}

/** Stops a node within the limit. @returns true if it stopped in time. Rethrows its error. */
export function stopNode(node: Pick<OwnNode, 'stop'>, limitMs: number): Promise<boolean> {
  return within(limitMs, node.stop())
}
