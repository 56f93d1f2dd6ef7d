/** T33: a copy of the seller that one process has found stops all processes that share the ledger. */
import { expect, onTestFinished, test } from 'vitest'
import { createTrading, type Trading } from '../../src/ledger/trading.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { forgetOthers } from '../../src/store/ledger-home.ts'
import { StoreError } from '../../src/store/store-error.ts'
import { HandClock } from '../support/hand-clock.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { until } from '../support/until.ts'

const clock = new HandClock(Date.parse('2026-01-01T00:00:00Z'))
const tradingOf = (database: LedgerDatabase): Trading =>
  createTrading({ database, dataDir: '/data', clock, logger: silentLogger })

onBothEngines((_open, openTwo) => {
  test('within a look, with the time and what to do, and they sign nothing after it', async () => {
    const [a, b] = (await openTwo()).map(tradingOf) as [Trading, Trading]
    await b.shareFindings()
    expect(b.state()).toEqual({ state: 'open' })
    a.copied('echo')
    expect(() => a.check()).toThrow(/it listed echo with the same key/)
    await until(async () => {
      await b.shareFindings()
      return b.isStopped()
    })
    expect(b.state()).toMatchObject({
      code: 'LEDGER_COPIED',
      reason: expect.stringContaining('a process that shares the ledger met it at 2026-01-01'),
      fix: expect.stringMatching(
        /^stop that node and all processes of this seller, run stoa ledger adopt --data-dir \/data,/,
      ),
    })
    expect(() => b.check()).toThrow(/this node does not trade/)
    // The process that has found it says what it has seen itself.
    await a.shareFindings()
    expect(a.state()).toMatchObject({ reason: expect.stringContaining('it listed echo') })
  })

  test('also if the ledger was away when it was found', async () => {
    const [first, second] = await openTwo()
    let isAway = true
    onTestFinished(() => {
      isAway = false
    })
    const a = tradingOf({
      ...first,
      async commit(change, ...noted) {
        if (isAway) throw new StoreError('STORE_AWAY', 'the database cannot be reached')
        return first.commit(change, ...noted)
      },
    })
    const b = tradingOf(second)
    a.copied('echo')
    await expect(a.shareFindings()).rejects.toMatchObject({ code: 'STORE_AWAY' })
    await b.shareFindings()
    expect([a.isStopped(), b.isStopped()]).toEqual([true, false])
    isAway = false
    await a.shareFindings()
    await b.shareFindings()
    expect(b.isStopped()).toBe(true)
  })

  test('until the operator has adopted the ledger: processes that start then trade', async () => {
    const [database, other] = await openTwo()
    tradingOf(database).copied('echo')
    await until(async () => {
      const trading = tradingOf(other)
      await trading.shareFindings()
      return trading.isStopped()
    })
    await database.commit(forgetOthers())
    const after = tradingOf(other)
    await after.shareFindings()
    expect(after.state()).toEqual({ state: 'open' })
  })
})
