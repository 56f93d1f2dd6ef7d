/** D39: 2007 takes no money without work, and nobody who knows only the specification pays twice. */
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { unclear } from '../../../test/support/fake-settlement.ts'
import { agentId, payTo, randomHex, signed, usdc } from '../../../test/support/payments.ts'
import { startSeller } from '../../../test/support/started-seller.ts'
import { until } from '../../../test/support/until.ts'
import { base64, type TestSeller, type TestSellerOptions, told } from '../../../test/support/x402-seller.ts'
import { AgentError } from '../../agents/runtime.ts'
import type { Hex } from '../../schema/primitives.ts'
import { createTransactions } from '../../store/transactions.ts'

async function start(options: TestSellerOptions = {}): Promise<TestSeller> {
  return startSeller({ settleFirst: true, ...options })
}

/** A purchase that was answered 2007, and the facilitator is back. */
async function refused(seller: TestSeller, task = 'the task') {
  seller.settlement.plan.push(unclear)
  const peer = await seller.connect()
  const bought = await peer.buy(task)
  expect(bought.answer?.message).toMatchObject({ error_code: 2007, retryable: true })
  await until(async () => (await seller.payments.get(bought.paymentId))?.error)
  return { peer, ...bought, body: base64(task) }
}
async function settles(seller: TestSeller, id: Hex): Promise<void> {
  seller.clock.advance(6_000)
  await until(async () => (await seller.payments.get(id))?.txHash)
  seller.clock.advance(2_000)
  await until(async () => (await seller.payments.get(id))?.state === 'settled')
}

describe('D39: what settles after 2007', () => {
  test('is run and kept, though its buyer never comes back', async () => {
    const seller = await start()
    const { paymentId } = await refused(seller)
    expect(seller.runs).toEqual([])
    await settles(seller, paymentId)
    await until(() => seller.exchanges.paidOutput(paymentId))
    expect(await seller.exchanges.paidOutput(paymentId)).toBe('re: the task')
    expect(seller.runs).toEqual([{ input: 'the task', callerId: 'did:buyer' }])
  })

  test('is given to a buyer that sends the same paid_request again, as often as it asks', async () => {
    const seller = await start()
    const { peer, payment, paymentId, correlation_id, body } = await refused(seller)
    expect(told(await peer.paidRequest(payment, { correlation_id, body }))).toBe('SETTLEMENT_FAILED')
    await settles(seller, paymentId)
    for (let time = 0; time < 2; time++) {
      const again = await peer.paidRequest(payment, { correlation_id, body })
      expect(again).toMatchObject({ type: 'x402.response', message: { payment_id: paymentId, correlation_id } })
      expect(told(again)).toBe('re: the task')
    }
    expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([1, 2])
  })

  test('is given to a buyer that sends its preemptive payment again', async () => {
    const seller = await start()
    seller.settlement.plan.push(unclear)
    const { envelope: payment, paymentId } = signed(seller.clock.now())
    const peer = await seller.connect()
    const body = base64('the task')
    expect(told(await peer.request({ payment, body }))).toBe('SETTLEMENT_FAILED')
    await until(async () => (await seller.payments.get(paymentId))?.error)
    await settles(seller, paymentId)
    expect(told(await peer.request({ payment, body }))).toBe('re: the task')
    expect(seller.runs).toHaveLength(1)
  })

  test('is given to a buyer that asks anew: no second payment is asked for the same task', async () => {
    const seller = await start()
    const { peer, paymentId, body } = await refused(seller)
    expect(told(await peer.request({ body }))).toBe('SETTLEMENT_FAILED')
    expect(told(await peer.request({ body: base64('another task') }))).toBe('x402.payment_required')
    await settles(seller, paymentId)
    expect(told(await peer.request({ body }))).toBe('re: the task')
    // It has what it paid for: the next one is another purchase.
    await until(async () => told(await peer.request({ body })) === 'x402.payment_required')
    expect(seller.runs).toHaveLength(1)
  })

  test('is run after a restart', async () => {
    const first = await start()
    const { paymentId } = await refused(first)
    await first.stop()
    const { database, settlement, clock } = first
    const second = await start({ database, settlement, clock })
    await settles(second, paymentId)
    await until(() => second.exchanges.paidOutput(paymentId))
    expect([first.runs.length, second.runs.length]).toEqual([0, 1])
  })

  test('in the moment in which its buyer is told 2007 is run as well', async () => {
    const seller = await start()
    seller.settlement.plan.push(unclear)
    const { defer } = seller.deps.deferred
    seller.deps.deferred.defer = async (id) => {
      await until(async () => (await seller.payments.get(id))?.error)
      await settles(seller, id)
      await new Promise((resolve) => setImmediate(resolve))
      await defer(id)
    }
    const { paymentId } = await (await seller.connect()).buy('the task')
    await until(() => seller.exchanges.paidOutput(paymentId))
  })

  test('is run though the ledger could not be read once', async () => {
    const seller = await start()
    const { unrun } = seller.deps.deferred
    let failures = 0
    seller.deps.deferred.unrun = (...asked) => {
      if (failures++ === 0) throw new Error('disk I/O error')
      return unrun(...asked)
    }
    const { paymentId } = await refused(seller)
    await settles(seller, paymentId)
    await until(() => seller.exchanges.paidOutput(paymentId))
    expect(failures).toBeGreaterThan(1)
  })

  test('and fails is run again when its buyer asks', async () => {
    const seller = await start()
    seller.work = () => Promise.reject(new AgentError('AGENT_FAILED', 'out of order'))
    const { peer, payment, paymentId, correlation_id, body } = await refused(seller)
    await settles(seller, paymentId)
    await until(() => seller.runs.length === 1)
    expect(told(await peer.paidRequest(payment, { correlation_id, body }))).toBe('EXECUTION_FAILED')
    seller.work = undefined
    expect(told(await peer.paidRequest(payment, { correlation_id, body }))).toBe('re: the task')
    expect(seller.settlement.attempts).toHaveLength(2)
  })
})

test('T6 D45 nothing runs for a payment as long as a transaction may pay it back, after a restart neither', async () => {
  const seller = await start()
  seller.work = () => Promise.reject(new AgentError('AGENT_FAILED', 'out of order'))
  const { peer, payment, paymentId, correlation_id, body } = await refused(seller)
  await settles(seller, paymentId)
  await until(() => seller.runs.length === 1)
  const transactions = createTransactions(seller.database)
  const hash = randomHex()
  const call = { to: usdc.address, data: '0x', value: 0n, key: undefined } as const
  const account = { network: usdc.network, account: payTo, accountNonce: 0 }
  const paysBack = { purpose: `refund ${paymentId}`, ...call, ...account, raw: '0x02', hash } as const
  await transactions.add(paysBack, 0, 1)
  seller.work = undefined
  const ask = () => peer.paidRequest(payment, { correlation_id, body })
  expect(told(await ask())).toBe('SETTLEMENT_FAILED')
  expect(told(await peer.askResult(payment))).toBe('SETTLEMENT_FAILED')
  expect(await seller.deps.deferred.unrun(10)).toEqual([])
  await transactions.end(paysBack, 'mined', 2)
  expect(told(await ask())).toBe('SETTLEMENT_FAILED')
  await seller.database.writeOne('UPDATE payments SET owner = NULL')
  await seller.payments.takeOver('the node stopped', seller.clock.now())
  expect(await seller.deps.deferred.unrun(10)).toEqual([])
  await seller.database.writeOne("UPDATE chain_transactions SET state = 'lost'")
  expect(told(await ask())).toBe('re: the task')
  expect(seller.runs).toHaveLength(2)
})

test('T5 T6 what was settled first and has run is not run again once its result is no longer kept', async () => {
  const seller = await start()
  const peer = await seller.connect()
  const { payment, paymentId, correlation_id, answer } = await peer.buy('the task')
  expect(answer?.type).toBe('x402.response')
  await until(async () => (await seller.payments.get(paymentId))?.state === 'settled')
  seller.clock.advance(31 * 24 * 60 * 60 * 1000)
  await seller.exchanges.purge(seller.clock.now())
  expect(await seller.exchanges.paidOutput(paymentId)).toBeUndefined()
  const body = base64('the task')
  for (let time = 0; time < 2; time++) {
    expect(told(await peer.askResult(payment))).toBe('UNKNOWN_RESOURCE')
    expect(told(await peer.paidRequest(payment, { correlation_id, body }))).toBe('PAYMENT_NONCE_USED')
  }
  expect(seller.runs).toHaveLength(1)
})

describe('T5: nothing else is taken up', () => {
  test('a replay of what was answered stays 2004, settled first or not', async () => {
    for (const settleFirst of [true, false]) {
      const seller = await start({ settleFirst })
      const peer = await seller.connect()
      const { payment, correlation_id, answer } = await peer.buy('the task')
      expect(told(answer)).toBe('re: the task')
      const again = await peer.paidRequest(payment, { correlation_id, body: base64('the task') })
      expect(told(again)).toBe('PAYMENT_NONCE_USED')
    }
  })

  test('not by another peer, nor with another task', async () => {
    const seller = await start()
    const { peer, payment, paymentId, correlation_id, body } = await refused(seller)
    await settles(seller, paymentId)
    const thief = await seller.connect('thief')
    expect(told(await thief.paidRequest(payment, { correlation_id, body }))).toBe('PAYMENT_NONCE_USED')
    expect(told(await thief.request({ body }))).toBe('x402.payment_required')
    const other = { correlation_id: randomUUID(), body: base64('another task') }
    expect(told(await peer.paidRequest(payment, other))).toBe('PAYMENT_NONCE_USED')
    expect(told(await peer.paidRequest(payment, { correlation_id, body }))).toBe('re: the task')
  })

  test('a payment that is given up says so for good, and the buyer may pay anew', async () => {
    const seller = await start()
    seller.settlement.usual = { moves: false, answer: { kind: 'refused', reason: 'insufficient_funds' } }
    const peer = await seller.connect()
    const { payment, paymentId, correlation_id } = await peer.buy('the task')
    await until(async () => (await seller.payments.get(paymentId))?.state === 'unsettled')
    const again = await peer.paidRequest(payment, { correlation_id, body: base64('the task') })
    expect(again?.message).toMatchObject({ error_code: 2007, retryable: false })
    expect(told(await peer.request({ body: base64('the task') }))).toBe('x402.payment_required')
    expect(seller.runs).toEqual([])
  })
})

describe('D39: an agent that is removed after 2007', () => {
  test('has its payment wait, and settled and run once it is back', async () => {
    const seller = await start()
    const { paymentId } = await refused(seller)
    const agent = seller.agents.get(agentId)!
    seller.agents.delete(agentId)
    for (let look = 0; look < 3; look++) {
      seller.clock.advance(21_000)
      await until(async () => (await seller.payments.get(paymentId))!.updatedAt === seller.clock.now())
    }
    expect(await seller.payments.get(paymentId)).toMatchObject({
      state: 'owed',
      error: expect.stringMatching(/removed/),
    })
    expect(seller.settlement.attempts).toHaveLength(1)
    seller.agents.set(agentId, agent)
    await settles(seller, paymentId)
    await until(() => seller.exchanges.paidOutput(paymentId))
    expect(seller.runs).toHaveLength(1)
  })

  test('never has it settled where it does not come back, and the buyer hears so', async () => {
    const seller = await start()
    const { peer, payment, paymentId } = await refused(seller)
    seller.agents.delete(agentId)
    await until(async () => {
      seller.clock.advance(10_000)
      return (await seller.payments.get(paymentId))?.state === 'unsettled'
    })
    expect(seller.settlement.attempts).toHaveLength(1)
    const answer = await peer.askResult(payment)
    expect(answer?.message).toMatchObject({ error_code: 2007, retryable: false })
  })
})
