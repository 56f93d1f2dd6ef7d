import { setTimeout as delay } from 'node:timers/promises'
import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import type { Context } from '../command.ts'
import { createLog } from '../log.ts'
import { checkOpenFiles } from '../open-files.ts'
import type { OwnNode } from '../parts.ts'

/** Time for a node to stop. The limit for the whole process is 5 s. */
export const STOP_MS_MAX = 4500
/** An interrupted start may complete for this long. Then it is stopped halfway. */
const SETTLE_MS_MAX = 2000
const POLL_MS = 100

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
    await stopNode(node)
  }
}

/** Waits for an interrupted start to complete, up to a limit, so that nothing it still uses is closed. */
export async function settled(started: Promise<unknown>): Promise<void> {
  const timer = new AbortController()
  const late = delay(SETTLE_MS_MAX, undefined, { signal: timer.signal }).catch(() => {})
  await Promise.race([started.catch(() => {}), late])
  timer.abort()
}

/** Stops a node within the limit. @returns true if it stopped in time. Rethrows its error. */
export async function stopNode(node: Pick<OwnNode, 'stop'>, limitMs = STOP_MS_MAX): Promise<boolean> {
  const timer = new AbortController()
  try {
    const late = delay(limitMs, 'late', { signal: timer.signal }).catch(() => 'late')
    return (await Promise.race([node.stop(), late])) !== 'late'
  } finally {
    timer.abort()
  }
}

/** Returns the promise's value. Throws the signal's reason as soon as the signal aborts. */
export async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const onAbort = () => reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', onAbort)
    promise.catch(() => {})
  }
}

/** Calls `ask` until it returns a value, for at most `limitMs`. @throws the signal's reason */
export async function poll<T>(
  ask: () => T | undefined,
  { limitMs, signal }: { limitMs: number; signal: AbortSignal },
): Promise<T | undefined> {
  const deadline = performance.now() + limitMs
  for (;;) {
    signal.throwIfAborted()
    const answer = ask()
    if (answer !== undefined || performance.now() >= deadline) return answer
    await delay(POLL_MS, undefined, { signal }).catch(() => {})
  }
}
