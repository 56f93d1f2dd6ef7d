import { describe, expect, test } from 'vitest'
import { endProcess } from '../../../test/support/end-process.ts'
import { unclear } from '../../../test/support/fake-settlement.ts'
import { signed, testWallet } from '../../../test/support/payments.ts'
import { startSeller } from '../../../test/support/started-seller.ts'
import { until } from '../../../test/support/until.ts'
import { type TestSeller, told } from '../../../test/support/x402-seller.ts'
import { AgentError } from '../../agents/runtime.ts'
import type { Hex } from '../../schema/primitives.ts'
import { PeerError } from '../peer-error.ts'

/** A run that ends when it is told to. */
function held(seller: TestSeller) {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  seller.work = () => promise
  return { end: resolve, fail: reject }
}

describe('D32: a paid result', () => {
  test('is given again to the peer that paid, as often as it asks, without another run or charge', async () => {
    const seller = await startSeller()
    const { answer, payment, paymentId } = await (await seller.connect()).buy()
    await until(async () => (await seller.payments.get(paymentId))?.txHash)
    for (let time = 0; time < 3; time++) {
      const again = await (await seller.connect()).askResult(payment)
      expect(again?.message).toMatchObject({
        payment_id: paymentId,
        body: answer?.message.body,
        tx_hash: answer?.message.tx_hash,
      })
    }
    expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([1, 1])
  })

  test('is handed over by a seller that has stopped selling, too (T33)', async () => {
    const seller = await startSeller()
    const { answer, payment } = await (await seller.connect()).buy()
    seller.deps.agents.find = () => {
      throw new PeerError('OVERLOADED', 'this seller has stopped selling')
    }
    const peer = await seller.connect()
    expect((await peer.askResult(payment))?.message).toMatchObject({ body: answer?.message.body })
    expect(told(await peer.request())).toBe('OVERLOADED')
  })

  test('names a transaction that is stored while its result is read', async () => {
    const seller = await startSeller()
    const { answer, payment, paymentId } = await (await seller.connect()).buy()
    await until(async () => (await seller.payments.get(paymentId))?.txHash)
    const { get } = seller.payments
    let reads = 0
    const read = async (id: Hex) => {
      reads += 1
      const stored = await get(id)
      return reads > 2 ? stored : stored && { ...stored, txHash: undefined }
    }
    Object.assign(seller.payments, { get: read })
    const again = await (await seller.connect()).askResult(payment)
    expect(again?.message).toMatchObject({ tx_hash: answer?.message.tx_hash })
  })

  test('names the transaction that the response before it named, also before that is on disk', async () => {
    const seller = await startSeller()
    const { save } = seller.payments
    const disk = Promise.withResolvers<void>()
    seller.payments.save = (...args) => disk.promise.then(() => save(...args))
    const peer = await seller.connect()
    const { answer, payment } = await peer.buy()
    const again = await peer.askResult(payment)
    disk.resolve()
    expect(answer?.message.tx_hash).toMatch(/^0x/)
    expect(again?.message.tx_hash).toBe(answer?.message.tx_hash)
  })

  test('comes with the transaction that has come since', async () => {
    const seller = await startSeller()
    seller.settlement.plan.push(unclear)
    const peer = await seller.connect()
    const { answer, payment, paymentId } = await peer.buy()
    expect(answer?.message.tx_hash).toBe('')
    await until(async () => (await seller.payments.get(paymentId))?.error)
    seller.clock.advance(6_000)
    const use = () => seller.settlement.useOf(payment.payer, payment.payload!.authorization.nonce)
    await until(() => use().state === 'used')
    await until(async () => (await seller.payments.get(paymentId))?.txHash)
    const again = await peer.askResult(payment)
    expect(again?.message.tx_hash).toBe((use() as { txHash: string }).txHash)
  })

  test('is waited for while it runs', async () => {
    const seller = await startSeller()
    const run = held(seller)
    const [buying, asking] = [await seller.connect(), await seller.connect()]
    const { payment, correlation_id } = await buying.challenged()
    const bought = buying.paidRequest(payment, { correlation_id })
    await until(() => seller.runs.length === 1)
    const asked = asking.askResult(payment)
    run.end('at last')
    expect([told(await bought), told(await asked)]).toEqual(['at last', 'at last'])
    expect(seller.runs).toHaveLength(1)
  })

  test('is waited for while it waits for its place', async () => {
    const seller = await startSeller({ slots: { concurrentMax: 1, waitingMax: 5 } })
    const run = held(seller)
    const busy = (await seller.connect('busy')).buy()
    await until(() => seller.runs.length === 1)
    const [buying, asking] = [await seller.connect(), await seller.connect()]
    const { payment, paymentId, correlation_id } = await buying.challenged()
    const bought = buying.paidRequest(payment, { correlation_id })
    await until(() => seller.deps.running.has(paymentId))
    const asked = asking.askResult(payment)
    run.end('at last')
    await busy
    expect([told(await bought), told(await asked)]).toEqual(['at last', 'at last'])
    expect(seller.runs).toHaveLength(2)
  })

  test('is nobody else’s, though he has seen the payment', async () => {
    const seller = await startSeller()
    const { payment } = await (await seller.connect('alice')).buy()
    const answer = await (await seller.connect('mallory')).askResult(payment)
    expect(told(answer)).toBe('PAYMENT_INVALID')
    expect(JSON.stringify(answer)).not.toContain(Buffer.from('re: task').toString('base64'))
  })

  test('is not given for a forged or changed payment', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { payment } = await peer.buy()
    const { authorization } = payment.payload!
    const forgeries = [
      { ...payment, payload: { authorization, signature: signed(seller.clock.now()).envelope.payload!.signature } },
      { ...payment, payer: testWallet(2).address },
      { ...payment, network: 'eip155:8453' },
      { ...payment, payload: undefined },
    ]
    for (const forged of forgeries) expect(told(await peer.askResult(forged))).toBe('PAYMENT_INVALID')
  })

  test('is that of its own agent', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { payment } = await peer.buy()
    expect(told(await peer.askResult(payment, { resource: 'free' }))).toBe('PAYMENT_INVALID')
  })

  test('survives the removal of its agent', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { payment } = await peer.buy()
    seller.agents.clear()
    expect(told(await peer.askResult(payment))).toBe('re: task')
  })

  test('of a payment that was never accepted here is told apart: it can still pay', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { envelope } = signed(seller.clock.now())
    expect(told(await peer.askResult(envelope))).toBe('PAYMENT_REQUIRED')
    expect(told(await peer.request({ payment: envelope }))).toBe('re: task')
  })

  test('of a void payment is told as void', async () => {
    const seller = await startSeller()
    seller.work = () => Promise.reject(new AgentError('AGENT_FAILED', 'no'))
    const peer = await seller.connect()
    const { payment } = await peer.buy()
    const answer = await peer.askResult(payment)
    expect(answer?.message).toMatchObject({
      error_name: 'EXECUTION_FAILED',
      retryable: false,
      message: expect.stringContaining('voided'),
    })
  })

  test('after a restart in the middle of the run is told as void, not charged', async () => {
    const first = await startSeller()
    const run = held(first)
    const peer = await first.connect()
    const { payment, correlation_id } = await peer.challenged()
    void peer.paidRequest(payment, { correlation_id }).catch(() => {})
    await until(() => first.runs.length === 1)
    // What a killed process leaves: the claim on disk.
    const second = await startSeller({
      database: endProcess(first.database),
      settlement: first.settlement,
      clock: first.clock,
    })
    const answer = await (await second.connect()).askResult(payment)
    expect(answer?.message).toMatchObject({
      error_name: 'EXECUTION_FAILED',
      error_code: 3000,
      retryable: false,
      message: expect.stringContaining('not charged'),
    })
    expect([second.runs.length, second.settlement.attempts.length]).toEqual([0, 0])
    run.end('of the dead')
  })

  test('T16: that could not be stored is told as failed, and is not charged', async () => {
    const seller = await startSeller()
    seller.deps.payments.deliver = () => Promise.reject(new Error('disk full'))
    const peer = await seller.connect()
    const { answer, payment } = await peer.buy()
    expect(told(answer)).toBe('EXECUTION_FAILED')
    const again = await peer.askResult(payment)
    expect(again?.message).toMatchObject({ error_name: 'EXECUTION_FAILED', retryable: false })
    expect(seller.settlement.attempts).toEqual([])
  })
})

describe('--settle-first', () => {
  test('runs only what is settled', async () => {
    const seller = await startSeller({ settleFirst: true })
    const order: string[] = []
    const settle = seller.settlement.facilitator.settle
    seller.settlement.facilitator.settle = async (...args) => {
      order.push('settle')
      return settle(...args)
    }
    seller.work = async () => {
      order.push('run')
      return 'done'
    }
    const { answer } = await (await seller.connect()).buy()
    expect([told(answer), order]).toEqual(['done', ['settle', 'run']])
    expect(answer?.message.tx_hash).toMatch(/^0x/)
  })

  test('D32 D39: what settles later is run, once, and its result is there to be asked for', async () => {
    const seller = await startSeller({ settleFirst: true })
    seller.settlement.plan.push(unclear)
    const peer = await seller.connect()
    const { answer, payment, paymentId } = await peer.buy('the task')
    expect(told(answer)).toBe('SETTLEMENT_FAILED')
    const early = await peer.askResult(payment)
    expect(early?.message).toMatchObject({ error_code: 2007, retryable: true })
    await until(async () => (await seller.payments.get(paymentId))?.error)
    seller.clock.advance(6_000)
    await until(async () => (await seller.payments.get(paymentId))?.txHash)
    seller.clock.advance(2_000)
    await until(async () => (await seller.payments.get(paymentId))?.state === 'settled')
    const asks = await Promise.all(Array.from({ length: 5 }, async () => (await seller.connect()).askResult(payment)))
    expect(asks.map(told)).toEqual(Array(5).fill('re: the task'))
    expect(seller.runs).toEqual([{ input: 'the task', callerId: 'did:buyer' }])
  })

  test('what can never settle is told so for good, and never runs', async () => {
    const seller = await startSeller({ settleFirst: true })
    seller.settlement.usual = {
      moves: false,
      answer: { kind: 'refused', reason: 'the facilitator refuses: insufficient_funds' },
    }
    const peer = await seller.connect()
    const { payment, paymentId } = await peer.buy()
    await until(async () => (await seller.payments.get(paymentId))?.state === 'unsettled')
    const answer = await peer.askResult(payment)
    expect(answer?.message).toMatchObject({
      error_code: 2007,
      retryable: false,
      message: expect.stringContaining('insufficient_funds'),
    })
    expect(seller.runs).toEqual([])
  })

  test('T5: when a settled run fails, those who wait for it cause one more run, not one each', async () => {
    const seller = await startSeller({ settleFirst: true })
    const first = held(seller)
    const buying = await seller.connect()
    const { payment, paymentId, correlation_id } = await buying.challenged()
    const bought = buying.paidRequest(payment, { correlation_id })
    await until(async () => seller.runs.length === 1 && (await seller.payments.get(paymentId))?.txHash)
    seller.clock.advance(2_000)
    await until(async () => (await seller.payments.get(paymentId))?.state === 'settled')
    const asks = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const peer = await seller.connect()
        return { answer: peer.askResult(payment) }
      }),
    )
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    const second = held(seller)
    first.fail(new AgentError('AGENT_FAILED', 'out of order'))
    expect(told(await bought)).toBe('EXECUTION_FAILED')
    await until(() => seller.runs.length > 1)
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    expect(seller.runs).toHaveLength(2)
    second.end('repaired')
    for (const { answer } of asks) expect(told(await answer)).toBe('repaired')
    expect(seller.runs).toHaveLength(2)
    expect(seller.settlement.attempts).toHaveLength(1)
  })

  test('a restart between settlement and run loses neither', async () => {
    const first = await startSeller({ settleFirst: true })
    const run = held(first)
    const peer = await first.connect()
    const { payment, paymentId, correlation_id } = await peer.challenged()
    void peer.paidRequest(payment, { correlation_id }).catch(() => {})
    await until(() => first.runs.length === 1)
    const second = await startSeller({
      database: endProcess(first.database),
      settlement: first.settlement,
      clock: first.clock,
      settleFirst: true,
    })
    second.clock.advance(2_000)
    await until(async () => (await second.payments.get(paymentId))?.state === 'settled')
    expect(told(await (await second.connect()).askResult(payment))).toBe('re: task')
    expect(second.settlement.attempts).toHaveLength(1)
    run.end('of the dead')
  })

  test.each(['settled', 'owed'])(
    'what a restart interrupts while it is %s is run though nobody asks',
    async (state) => {
      const isOwed = state === 'owed'
      const first = await startSeller({ settleFirst: true, attemptTimeoutMs: 20_000 })
      const { settlement, clock } = first
      if (isOwed) settlement.plan.push({ moves: true, answer: 'hang' })
      const run = held(first)
      const peer = await first.connect()
      const { payment, paymentId, correlation_id } = await peer.challenged()
      void peer.paidRequest(payment, { correlation_id }).catch(() => {})
      await until(() => (isOwed ? settlement.attempts.length : first.runs.length) === 1)
      await until(async () => (await first.payments.get(paymentId))?.state === state)
      const second = await startSeller({ database: endProcess(first.database), settlement, clock, settleFirst: true })
      await until(async () => {
        clock.advance(2_000)
        return (await second.payments.get(paymentId))?.ran
      })
      expect([second.runs.length, settlement.attempts.length]).toEqual([1, 1])
      expect(told(await (await second.connect()).askResult(payment))).toBe('re: task')
      expect(second.runs).toHaveLength(1)
      run.end('of the dead')
    },
  )
})
