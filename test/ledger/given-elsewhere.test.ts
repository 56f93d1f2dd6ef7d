/** D39: a process takes over settled work of an agent that it does not sell. */
import { expect, onTestFinished, test } from 'vitest'
import { createTail } from '../../src/ledger/tail.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createChangeLog } from '../../src/store/postgres/change-log.ts'
import { run } from '../../src/store/query.ts'
import { FakeSettlement, unclear } from '../support/fake-settlement.ts'
import { HandClock } from '../support/hand-clock.ts'
import { openShared } from '../support/ledgers.ts'
import { agentId } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { TestSeller, told } from '../support/x402-seller.ts'

/** Processes of one seller on one ledger. `sellers`: those that the others believe to sell the agent. */
async function startProcesses(count: number) {
  const shared = {
    settlement: new FakeSettlement(),
    clock: new HandClock(),
    settleFirst: true,
    attemptTimeoutMs: 20_000,
  }
  const ledgers = await openShared(count)
  const sellers = new Set<string>()
  const start = async (ledger: LedgerDatabase) => {
    const tail = createTail({ log: createChangeLog(ledger), logger: silentLogger })
    const sellersOf = () => [...sellers].filter((id) => id !== ledger.process)
    const seller = new TestSeller({ ...shared, ledger, tail, sellersOf })
    await tail.start()
    onTestFinished(async () => {
      await seller.stop()
      await tail.stop()
    })
    return seller
  }
  const processes = await Promise.all(ledgers.map(start))
  return { ...shared, ledgers, processes, sellers }
}

/** A payment that settles first, was answered 2007, and whose process has ended. The last of the processes has no agent. */
async function leaveWork({ settlement, clock, ledgers, processes }: Awaited<ReturnType<typeof startProcesses>>) {
  const [first, heir] = [processes[0]!, processes.at(-1)!]
  for (const process of processes) await process.start()
  heir.agents.delete(agentId)
  settlement.plan.push(unclear)
  const peer = await first.connect()
  const { answer, paymentId } = await peer.buy('the task')
  expect(told(answer)).toBe('SETTLEMENT_FAILED')
  await until(async () => (await first.payments.get(paymentId))?.error)
  await first.stop()
  await ledgers.at(-1)!.commit(run('UPDATE processes SET ended_at = 1 WHERE id = ?', ledgers[0]!.process))
  await heir.takeOver()
  const settles = async () => {
    clock.advance(6_000)
    await until(async () => (await heir.payments.get(paymentId))?.txHash)
    clock.advance(2_000)
    await until(async () => (await heir.payments.get(paymentId))?.state === 'settled')
  }
  return { heir, paymentId, settles }
}

test('work of an agent that another process sells is given to that process, and runs there soon', async () => {
  const shop = await startProcesses(3)
  shop.sellers.add(shop.ledgers[1]!.process)
  const { heir, paymentId, settles } = await leaveWork(shop)
  await settles()
  await until(() => heir.exchanges.paidOutput(paymentId))
  expect(shop.processes.map(({ runs }) => runs.length)).toEqual([0, 1, 0])
})

test('work of an agent that nobody sells waits, and runs where the agent comes back', async () => {
  const shop = await startProcesses(2)
  // It was sold when the payment settled.
  shop.sellers.add('a process that has ended')
  const { heir, paymentId, settles } = await leaveWork(shop)
  await settles()
  await until(() => heir.log.some(([, text]) => String(text).includes('waits for its agents')))
  heir.addAgent()
  await until(() => heir.exchanges.paidOutput(paymentId))
  expect(heir.runs.length).toBe(1)
})
