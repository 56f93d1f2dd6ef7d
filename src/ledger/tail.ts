import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { idle } from '../lib/wait.ts'
import type { ChangeLog } from '../store/postgres/change-log.ts'
import type { SharedChange } from '../store/shared-changes.ts'

/** Pauses between two looks: short while the other processes work, longer while they do nothing. */
const PAUSE_MIN_MS = 100
const PAUSE_MAX_MS = 1_000
const PAUSE_GROWTH = 1.5
const PURGE_EVERY_MS = 60_000

export type TailListener = {
  /** Another process has committed a change of this record. */
  changed(change: SharedChange): void
  /** Some changes of other processes were missed: read again all that was derived from the ledger. */
  missed(): void
}

/** Tells this process what other processes change in a shared ledger, each change at least once and after its commit. */
export interface Tail extends Service {
  listen(listener: TailListener): void
  /**
   * By how many ms the reading of changes by other processes is overdue. 0: this process keeps up, and knows of a change at
   * most `PAUSE_MAX_MS` after its commit.
   */
  lagMs(): number
}

type TailDeps = { log: ChangeLog; logger: Logger /** In ms. */; now?(): number }

export function createTail({ log, logger, now = () => performance.now() }: TailDeps): Tail {
  const listeners: TailListener[] = []
  const stopping = new AbortController()
  let following: Promise<void> | undefined
  let purgedAt = performance.now()
  /** All that was committed is to be known by then. */
  let dueAt = now()

  function tell(call: (listener: TailListener) => void): void {
    for (const listener of listeners) {
      try {
        call(listener)
      } catch (error) {
        logger.error({ err: error }, 'a listener failed at a change of another process')
      }
    }
  }

  /** @returns whether other processes have changed anything */
  async function look(): Promise<boolean> {
    for (let isNew = false; ; ) {
      const { changes, isMissed, hasMore } = await log.read()
      if (isMissed) {
        logger.warn({}, 'other processes of this seller changed more than could be followed: everything is read again')
        tell((listener) => listener.missed())
      }
      for (const change of changes) {
        if (change.record === 'all') tell((listener) => listener.missed())
        else tell((listener) => listener.changed(change))
      }
      isNew ||= changes.length > 0
      if (!hasMore || stopping.signal.aborted) return isNew
    }
  }

  async function purge(): Promise<void> {
    if (performance.now() - purgedAt < PURGE_EVERY_MS) return
    purgedAt = performance.now()
    await log.purge()
  }

  async function follow(): Promise<void> {
    let pauseMs = PAUSE_MIN_MS
    let isAway = false
    while (await idle(pauseMs, stopping.signal)) {
      try {
        const isNew = await look()
        pauseMs = isNew ? PAUSE_MIN_MS : Math.min(PAUSE_MAX_MS, pauseMs * PAUSE_GROWTH)
        dueAt = now() + pauseMs
        await purge()
        isAway = false
      } catch (error) {
        // The position stays, so that nothing is lost.
        if (!isAway) logger.warn({ err: error }, 'changes of other processes cannot be read; the node tries again')
        isAway = true
        pauseMs = PAUSE_MAX_MS
      }
    }
  }

  return {
    name: 'tail',
    listen: (listener) => void listeners.push(listener),
    lagMs: () => Math.max(0, now() - dueAt),
    async start() {
      await log.read()
      dueAt = now() + PAUSE_MIN_MS
      following = follow()
    },
    async stop() {
      stopping.abort()
      await following
    },
  }
}
