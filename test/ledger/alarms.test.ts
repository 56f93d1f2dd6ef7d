import { expect, test } from 'vitest'
import { RUN_CANCELED } from '../../src/schema/limits.ts'
import { createAlarmStore } from '../../src/store/alarms.ts'
import { createExchanges } from '../../src/store/exchanges.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createPayments } from '../../src/store/payments.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { agentId, claim, exchangeOf } from '../support/payments.ts'

let at = 1_000
async function lose(database: LedgerDatabase, error: string): Promise<void> {
  const payments = createPayments(database)
  const payment = claim(++at)
  await payments.claim(payment, at)
  await payments.deliver({ id: payment.id, state: 'owed' }, exchangeOf(payment, at), at)
  await payments.save({ id: payment.id, state: 'unsettled', error }, at)
}

onBothEngines((open, openTwo) => {
  test('unpaid work is grouped by its error, and counted again from a time on', async () => {
    const database = await open()
    const store = createAlarmStore(database)
    expect([await store.unpaid(), await store.stuck(), await store.lateRuns(() => 0)]).toEqual([[], [], []])
    for (const error of ['no funds', 'no funds', 'canceled']) await lose(database, error)
    expect(await store.unpaid()).toEqual([
      { error: 'canceled', count: 1, amount: 10_000n, newestAt: at },
      { error: 'no funds', count: 2, amount: 20_000n, newestAt: at - 1 },
    ])
    expect(await store.unpaidSince('no funds', at - 2)).toMatchObject({ count: 1, amount: 10_000n })
    expect(await store.unpaidSince('no funds', at)).toBeUndefined()
  })

  test('an owed payment is stuck after its second failed attempt', async () => {
    const database = await open()
    const [store, payments] = [createAlarmStore(database), createPayments(database)]
    const { id, ...rest } = claim(++at)
    await payments.claim({ id, ...rest }, at)
    await payments.deliver({ id, state: 'owed' }, exchangeOf({ id, ...rest }, at), at)
    for (const attempts of [1, 2]) {
      expect(await store.stuck()).toEqual([])
      await payments.save({ id, state: 'owed', error: 'refused', attempts, nextAttemptAt: at + 1 }, at)
    }
    expect(await store.stuck()).toEqual([{ error: 'refused', count: 1, amount: 10_000n, newestAt: at }])
  })

  test('the latest runs are counted by agent, from a number on', async () => {
    const database = await open()
    const exchanges = createExchanges(database)
    const run = (error?: string) =>
      exchanges.record({
        ...{ agentId, callerId: 'did:peer:them', correlationId: 'c', input: 'x', createdAt: ++at, durationMs: 1 },
        ...(error === undefined ? { output: 'y' } : { error }),
      })
    for (const error of [undefined, 'broke', 'broke']) await run(error)
    const store = createAlarmStore(database)
    const [all] = await store.lateRuns(() => 0)
    expect(all).toMatchObject({ agentId, calls: 3, failed: 2 })
    expect(await store.lateRuns(() => all!.newest - 1)).toMatchObject([{ calls: 1, failed: 1 }])
    // Its caller canceled it: that says nothing about the agent.
    for (let canceled = 0; canceled < 3; canceled++) await run(RUN_CANCELED)
    expect(await store.lateRuns(() => 0)).toMatchObject([{ agentId, calls: 3, failed: 2, newest: all!.newest }])
    expect(await store.lateRuns(() => all!.newest)).toEqual([])
  })

  test('an alarm that was dismissed again since is not forgotten', async () => {
    const [one, other] = (await openTwo()).map(createAlarmStore) as [
      ReturnType<typeof createAlarmStore>,
      ReturnType<typeof createAlarmStore>,
    ]
    await Promise.all([one.dismiss('a', { mark: '1', at: 1 }), other.dismiss('b', { mark: '1', at: 1 })])
    const seen = await one.dismissals()
    await other.dismiss('a', { mark: '2', at: 2 })
    await one.forget(seen)
    expect(await other.dismissals()).toEqual(new Map([['a', { mark: '2', at: 2, heldAt: 2 }]]))
  })

  test('a dismissal is not forgotten of which another process has seen meanwhile that its alarm holds', async () => {
    const [one, other] = (await openTwo()).map(createAlarmStore) as [
      ReturnType<typeof createAlarmStore>,
      ReturnType<typeof createAlarmStore>,
    ]
    await one.dismiss('a', { mark: '1', at: 1 })
    const seen = await one.dismissals()
    await other.hold(['a'], 9)
    await one.forget(seen)
    expect(await one.dismissals()).toEqual(new Map([['a', { mark: '1', at: 1, heldAt: 9 }]]))
    await one.forget(await one.dismissals())
    expect((await other.dismissals()).size).toBe(0)
  })
})
