import { expect, test } from 'vitest'
import { a2aCaller } from '../../src/schema/caller.ts'
import { createExchanges } from '../../src/store/exchanges.ts'
import { createPayments } from '../../src/store/payments.ts'
import { createTaskRecords } from '../../src/store/task-records.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { agentId, claim, exchangeOf } from '../support/payments.ts'

const now = Date.UTC(2026, 0, 1)
const callerId = a2aCaller(undefined, 'c')

onBothEngines((open) => {
  test('D32: a task is found by its agent and id, and no call of a peer is taken for one', async () => {
    const database = await open()
    const exchanges = createExchanges(database)
    const records = createTaskRecords(database)
    const ran = { agentId, callerId, correlationId: 't', input: 'é', output: 'y', createdAt: now, durationMs: 5 }
    await exchanges.record(ran)
    await exchanges.record({ ...ran, callerId: 'did:peer:a2a:', correlationId: 'u' })
    expect(await records.find(agentId, 't')).toEqual({
      ...{ agentId, callerId, taskId: 't', input: 'é', output: 'y', error: undefined, endedAt: now + 5 },
      payment: undefined,
    })
    expect([await records.find('other', 't'), await records.find(agentId, 'u')]).toEqual([undefined, undefined])
  })

  test('D32: a paid task is found with its payment', async () => {
    const database = await open()
    const payments = createPayments(database)
    const one = claim(now)
    await payments.claim(one, now)
    await payments.deliver(
      { id: one.id, state: 'owed' },
      { ...exchangeOf(one, now), callerId, correlationId: 't' },
      now,
    )
    const found = await createTaskRecords(database).find(agentId, 't')
    expect(found?.payment).toMatchObject({ state: 'owed', txHash: undefined, signed: undefined })
    expect(found?.payment?.payer).toMatch(/^0x[0-9a-f]{40}$/i)
  })
})
