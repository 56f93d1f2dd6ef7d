import { setTimeout as delay } from 'node:timers/promises'
import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import type { Context } from '../command.ts'
import { createLog } from '../log.ts'
import { checkOpenFiles } from '../open-files.ts'
import type { OwnNode } from '../parts.ts'

/** A node that is told to stop has this long (issue: 5 s in all). */
export const STOP_MS_MAX = 4500
/** A start that is interrupted may come to its own end for this long before it is stopped half-way. */
const SETTLE_MS_MAX = 2000
const POLL_MS = 100

/**
 * Runs a node of the command's own for as long as `use` takes: no API, no agents, any free port unless one is asked for.
 *
 * It takes the lock of the data directory like every node, since it may pay from its wallet.
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
    // What it says while it works is of no interest to who wants an answer, unless asked for.
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

/** Lets a start that was interrupted come to its own end, for a while: what it is about to use must not be closed under it. */
export async function settled(started: Promise<unknown>): Promise<void> {
  const timer = new AbortController()
  const late = delay(SETTLE_MS_MAX, undefined, { signal: timer.signal }).catch(() => {})
  await Promise.race([started.catch(() => {}), late])
  timer.abort()
}

/** Stops a node within the limit. @returns whether it had stopped by then; what it threw is thrown */
export async function stopNode(node: Pick<OwnNode, 'stop'>, limitMs = STOP_MS_MAX): Promise<boolean> {
  const timer = new AbortController()
  try {
    const late = delay(limitMs, 'late', { signal: timer.signal }).catch(() => 'late')
    return (await Promise.race([node.stop(), late])) !== 'late'
  } finally {
    timer.abort()
  }
}

/** The promise's value, or the signal's reason as soon as it aborts. */
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

/** Asks again and again until there is an answer, for at most `limitMs`. @throws the signal's reason */
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
