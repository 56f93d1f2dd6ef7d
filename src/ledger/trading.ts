import { type Clock, isoTime, type UnixMs } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { MarketError } from '../listings/market-error.ts'
import type { NodeStatus } from '../schema/api.ts'
import type { FilePlace } from '../store/file-place.ts'
import type { LedgerDatabase } from '../store/ledger-database.ts'
import { readMet, writeMet } from '../store/ledger-home.ts'
import { clockTrouble } from './clock-difference.ts'

type TradingDeps = {
  database: LedgerDatabase
  dataDir: string
  clock: Clock
  logger: Logger
}

/**
 * Tells whether this node buys and sells. Trading stops, with a reason, if the ledger is damaged or was copied (T33),
 * while its file is gone, and while the clock is not that of the ledger.
 */
export interface Trading {
  state(): NonNullable<NodeStatus['trading']>
  isStopped(): boolean
  /** Called before every signature. @throws MarketError LEDGER_COPIED, LEDGER_LOST, CLOCK_OFF, StoreError STORE_DAMAGED */
  check(): void
  /** Called when another node signed a listing with this node's key. Remembered until the operator resumes trading. */
  copied(agentName: string): void
  /**
   * Tells the other processes of this seller of a copy that this one has found, and learns of one that they have found.
   * Called often by a process that shares its ledger.
   */
  shareFindings(): Promise<void>
  /** Called with how far the clock is ahead of the ledger's, whenever that was measured. */
  clockIs(aheadMs: number): void
  /** Called often with what is at the path of the ledger's file. */
  fileIs(place: FilePlace): void
}

export function createTrading({ database, dataDir, clock, logger }: TradingDeps): Trading {
  let copied: { reason: string; fix: string } | undefined
  /** When this process has found a copy, until that is stored. */
  let unstored: UnixMs | undefined
  let clockOff: { reason: string; fix: string } | undefined
  let lost: { reason: string; fix: string } | undefined

  function stop(reason: string, fix: string): void {
    copied = { reason, fix }
    logger.error({}, `trading has stopped: ${reason}. To fix it, ${fix}`)
  }

  async function store(): Promise<void> {
    const at = unstored
    if (at === undefined) return
    await writeMet(database, at)
    unstored = undefined
  }

  function state(): ReturnType<Trading['state']> {
    const damage = database.damage()
    if (damage !== undefined) {
      const { code, message: reason } = damage
      if (code === 'STORE_IN_USE') return { state: 'stopped', code, reason, fix: 'start this node again' }
      const fix = 'stop the node and restore a backup (docs/operations.md)'
      return { state: 'stopped', code: 'STORE_DAMAGED', reason, fix }
    }
    if (copied !== undefined) return { state: 'stopped', code: 'LEDGER_COPIED', ...copied }
    if (lost !== undefined) return { state: 'stopped', code: 'LEDGER_LOST', ...lost }
    return clockOff === undefined ? { state: 'open' } : { state: 'stopped', code: 'CLOCK_OFF', ...clockOff }
  }

  return {
    state,
    isStopped: () => state().state === 'stopped',
    check() {
      const damage = database.damage()
      if (damage !== undefined) throw damage
      if (copied !== undefined) {
        throw new MarketError('LEDGER_COPIED', `${copied.reason}; this node does not trade: ${copied.fix}`)
      }
      if (lost !== undefined) throw new MarketError('LEDGER_LOST', `${lost.reason}: nothing was signed; ${lost.fix}`)
      if (clockOff === undefined) return
      throw new MarketError('CLOCK_OFF', `${clockOff.reason}: nothing was signed; ${clockOff.fix}`)
    },
    copied(agentName) {
      if (copied !== undefined) return
      const now = clock.now()
      stop(
        `another node uses the identity of this node: it listed ${agentName} with the same key at ${isoTime(now)}`,
        `stop both nodes, run stoa ledger adopt --data-dir ${dataDir} for the one to keep, and start only that one`,
      )
      unstored = now
      store().catch((error: unknown) => {
        logger.error({ err: error }, 'could not store that another node uses this identity')
      })
    },
    async shareFindings() {
      // If the ledger could not store the copy when it was found, it does so as soon as it answers.
      await store()
      if (copied !== undefined) return
      const met = await readMet(database)
      if (met === undefined) return
      stop(
        `another node uses the identity of this seller: a process that shares the ledger met it at ${isoTime(met)}`,
        `stop that node and all processes of this seller, run stoa ledger adopt --data-dir ${dataDir}, and start the processes again`,
      )
    },
    fileIs(place) {
      const before = lost
      const what = place === 'gone' ? 'was deleted or moved' : 'was replaced by another file'
      lost =
        place === 'there'
          ? undefined
          : {
              reason: `stoa.db in ${dataDir} ${what} while the node runs, so what the node writes now is lost when it ends`,
              fix: 'put the file back where it was; if it is gone, let the node settle what is pending, stop it, and restore a backup of the data directory (docs/operations.md)',
            }
      if (lost !== undefined && before === undefined) {
        logger.error({}, `trading has stopped: ${lost.reason}. To fix it, ${lost.fix}`)
      }
      if (lost === undefined && before !== undefined) logger.info({}, 'the file of the ledger is back: trading goes on')
    },
    clockIs(aheadMs) {
      const before = clockOff
      clockOff = clockTrouble(aheadMs)
      if (clockOff !== undefined && before === undefined) {
        logger.error({}, `trading has stopped: ${clockOff.reason}. To fix it, ${clockOff.fix}`)
      }
      if (clockOff === undefined && before !== undefined) logger.info({}, 'the clock is right again: trading goes on')
    },
  }
}
