import type { Clock } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { periodic } from '../lib/periodic.ts'
import type { OwnAgents } from '../selling/hosted-agents.ts'
import type { Exchanges } from '../store/exchanges.ts'
import type { IdempotencyKeys } from '../store/idempotency.ts'
import type { RunTime } from '../store/run-time.ts'
import type { SentMessageStore } from '../store/sent-messages.ts'

const MINUTE_MS = 60 * 1000
const HOUR_MS = 60 * MINUTE_MS

/** Periodic cleanup, so that no table grows without limit. */
export function housekeeping(deps: {
  clock: Clock
  logger: Logger
  exchanges: Pick<Exchanges, 'purge' | 'trim'>
  keys: Pick<IdempotencyKeys, 'purge'>
  messages: Pick<SentMessageStore, 'purge'>
  agents: Pick<OwnAgents, 'delistUnknown'>
  runTime: Pick<RunTime, 'save'>
  /** Whether this process cleans the ledger up: one of those that share it does. */
  isKeeper(): Promise<boolean>
}): Service[] {
  const { clock, logger, exchanges, keys, messages, agents, runTime, isKeeper } = deps
  const onError = (error: unknown) => logger.warn({ err: error }, 'housekeeping failed')
  return [
    periodic(
      { name: 'housekeeping', firstMs: 20_000, everyMs: HOUR_MS },
      {
        work: async () => {
          await agents.delistUnknown()
          if (await isKeeper()) await Promise.all([exchanges.purge(clock.now()), keys.purge(), messages.purge()])
        },
        onError,
      },
    ),
    periodic(
      { name: 'room', firstMs: MINUTE_MS, everyMs: MINUTE_MS },
      {
        work: async () => {
          if (await isKeeper()) await exchanges.trim(clock.now())
        },
        onError,
      },
    ),
    // Every process saves its run time. Else keys would look too young to one that began later, and too old to the others.
    periodic({ name: 'run time', firstMs: MINUTE_MS, everyMs: MINUTE_MS }, { work: () => runTime.save(), onError }),
  ]
}
