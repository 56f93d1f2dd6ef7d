/** A ledger that fails while a worker joins. */
import { expect, onTestFinished, test } from 'vitest'
import { openWorkshop, task } from '../../test/support/workshop.ts'
import { openDatabase } from '../store/database.ts'
import { StoreError } from '../store/store-error.ts'

test('T34 a task that a joining worker is given while the ledger fails does not hang', async () => {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  let reads = -Infinity
  const query: typeof database.query = async (wanted) => {
    // The worker is admitted, and the pool may give it a task. The door then cannot ask whether it may stay.
    if (++reads === 3) throw new StoreError('STORE_AWAY', 'away for a moment')
    return database.query(wanted)
  }
  const shop = await openWorkshop({ awayMs: 1, ledger: { ...database, query } })
  const busy = await shop.joined()
  const first = shop.pool.run('paint', task('first'))
  const run = await busy.task()
  const waiting = shop.pool.run('paint', task('second'))
  const late = await shop.peer()
  const invitation = await shop.invite()
  reads = 0
  await late.join(invitation)
  await busy.send('work.result', { run, body: '' })
  expect(await first).toBe('')
  // It failed, or it went on to the other worker.
  const failed = waiting.then(
    () => 'done',
    ({ name }) => name,
  )
  expect(await Promise.race([failed, busy.task().then(() => 'went on')])).toMatch(/AgentError|went on/)
  expect(await late.refusal()).toBeUndefined()
  expect(shop.pool.links()).toHaveLength(1)
})
