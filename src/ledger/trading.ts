import { type Clock, isoTime } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { MarketError } from '../listings/market-error.ts'
import type { NodeStatus } from '../schema/api.ts'
import type { LedgerDatabase } from '../store/ledger-database.ts'
import { writeMet } from '../store/ledger-home.ts'

type TradingDeps = {
  database: LedgerDatabase
  dataDir: string
  clock: Clock
  logger: Logger
}

/**
 * Tells whether this node buys and sells. Trading stops, with a reason, if the ledger is damaged or was copied (T33).
 */
export interface Trading {
  state(): NonNullable<NodeStatus['trading']>
  isStopped(): boolean
  /** Called before every signature. @throws MarketError LEDGER_COPIED, StoreError STORE_DAMAGED */
  check(): void
  /** Called when another node signed a listing with this node's key. Remembered until the operator resumes trading. */
  copied(agentName: string): void
}

export function createTrading({ database, dataDir, clock, logger }: TradingDeps): Trading {
  let copied: { reason: string; fix: string } | undefined

  function state(): ReturnType<Trading['state']> {
    const damage = database.damage()
    if (damage !== undefined) {
      const { code, message: reason } = damage
      if (code === 'STORE_IN_USE') return { state: 'stopped', code, reason, fix: 'stop this node' }
      const fix = 'stop the node and restore a backup (docs/operations.md)'
      return { state: 'stopped', code: 'STORE_DAMAGED', reason, fix }
    }
    return copied === undefined ? { state: 'open' } : { state: 'stopped', code: 'LEDGER_COPIED', ...copied }
  }

  return {
    state,
    isStopped: () => state().state === 'stopped',
    check() {
      const damage = database.damage()
      if (damage !== undefined) throw damage
      if (copied === undefined) return
      throw new MarketError('LEDGER_COPIED', `${copied.reason}; this node does not trade: ${copied.fix}`)
    },
    copied(agentName) {
      if (copied !== undefined) return
      const now = clock.now()
      copied = {
        reason: `another node uses the identity of this node: it listed ${agentName} with the same key at ${isoTime(now)}`,
        fix: `stop both nodes, run stoa ledger adopt --data-dir ${dataDir} for the one to keep, and start only that one`,
      }
      logger.error({ agent_name: agentName }, `trading has stopped: ${copied.reason}. To fix it, ${copied.fix}`)
      writeMet(database, now).catch((error: unknown) => {
        logger.error({ err: error }, 'could not store that another node uses this identity')
      })
    },
  }
}
