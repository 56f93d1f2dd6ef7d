import { describe, expect, test, vi } from 'vitest'
import { endProcess } from '../../test/support/end-process.ts'
import { agentId } from '../../test/support/payments.ts'
import { ScriptedSeller, type ScriptedStream } from '../../test/support/scripted-seller.ts'
import { startSeller } from '../../test/support/started-seller.ts'
import { TestBuyer, type TestBuyerOptions } from '../../test/support/test-buyer.ts'
import { until } from '../../test/support/until.ts'
import type { TestSeller, TestSellerOptions } from '../../test/support/x402-seller.ts'
import { encodeTextFrame } from '../protocols/frame.ts'

type Stream = Awaited<ReturnType<TestSeller['open']>>

/** A buyer of a seller that may be replaced, and whose streams can be interfered with. */
async function market(options: TestSellerOptions & Pick<TestBuyerOptions, 'dailyBudget'> = {}) {
  let seller: TestSeller | undefined = await startSeller(options)
  const first = seller
  const streams: Stream[] = []
  const open: TestBuyerOptions['open'] = async (_peer, protocol) => {
    if (seller === undefined) throw new Error('the seller is down')
    const stream = await seller.open('buyer', protocol)
    streams.push(stream)
    return stream
  }
  const { dailyBudget = 1_000_000n } = options
  const buyer = new TestBuyer({ clock: first.clock, open, dailyBudget })
  return {
    seller: first,
    buyer,
    streams,
    /** The seller process dies: its streams are lost, what it has on disk stays. */
    kill: () => {
      seller = undefined
      for (const stream of streams) stream.abort(new Error('the connection is lost'))
    },
    revive: async () => {
      seller = await startSeller({
        ...options,
        database: endProcess(first.database),
        settlement: first.settlement,
        clock: first.clock,
      })
      return seller
    },
  }
}
const scripted = (script: (stream: ScriptedStream) => Promise<void>) => {
  const seller = new ScriptedSeller(script)
  return { seller, buyer: new TestBuyer({ open: seller.open }) }
}
const envelopes = (seller: ScriptedSeller) =>
  seller.received.flatMap(({ message }) => ('payment' in message && message.payment ? [message.payment.payload] : []))

describe('D23: streams are used again', () => {
  test('one after the other over one stream', async () => {
    const { buyer, streams } = await market()
    for (let time = 0; time < 5; time++) await buyer.execute()
    expect(streams).toHaveLength(1)
  })

  test('a seller that ends its stream after each exchange is met with a new one, and nothing is lost or paid twice', async () => {
    const { buyer, seller, streams } = await market()
    for (let time = 0; time < 3; time++) {
      await buyer.execute()
      await streams.at(-1)!.close()
    }
    expect([streams.length, seller.runs.length, seller.settlement.attempts.length]).toEqual([3, 3, 3])
    expect(await buyer.spent()).toBe(30_000n)
  })

  test('a stream that died unnoticed is replaced before anything is signed', async () => {
    const script = async (stream: ScriptedStream) => {
      for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
        if (stream.index === 0 && seller.received.length > 2) return stream.raw.abort(new Error('idle for too long'))
        if (message.type === 'x402.request') await stream.challenge(message)
        else await stream.respond(message)
      }
    }
    const { seller, buyer } = scripted(script)
    await buyer.execute()
    await buyer.execute()
    expect(seller.opened).toBe(2)
    expect((await buyer.ledger()).map(({ reservation }) => reservation?.state)).toEqual(['spent', 'spent'])
  })

  test('streams that were opened for one exchange are given back after it', async () => {
    const opened: ScriptedStream[] = []
    const { seller, buyer } = scripted(async (stream) => {
      opened.push(stream)
      const message = await stream.next()
      if (message?.type === 'x402.request') {
        await stream.challenge(message)
        return stream.raw.close()
      }
      await stream.respond(message)
      await stream.next()
      await stream.raw.close()
    })
    await buyer.execute()
    await buyer.streams.close()
    await until(() => opened.every(({ raw }) => raw.status === 'closed'))
    expect(seller.opened).toBe(2)
  })
})

describe('D32: a paid call that is cut off gets its result by the same authorization', () => {
  test('when the connection is lost while the agent runs', async () => {
    const { buyer, seller, streams } = await market()
    const gate = Promise.withResolvers<string>()
    seller.work = () => gate.promise
    const buying = buyer.execute()
    await until(() => seller.runs.length === 1)
    await streams[0]!.close()
    gate.resolve('late')
    expect((await buying).output).toBe('late')
    expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([1, 1])
  })

  test('when the answer is cut in the middle (T23)', async () => {
    const { seller, buyer } = scripted(async (stream) => {
      if (stream.index === 0) {
        await stream.challenge(await stream.next())
        await stream.next()
        stream.raw.send(encodeTextFrame('x402.response', '{"version"').subarray(0, 20))
        return stream.raw.close()
      }
      for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
        if (message.type === 'x402.paid_request') await stream.refuse(message, 'PAYMENT_NONCE_USED')
        else await stream.respond(message)
      }
    })
    expect((await buyer.execute()).output).toBe('result')
    expect(new Set(envelopes(seller).map((payload) => payload?.signature)).size).toBe(1)
    expect(await buyer.ledger()).toMatchObject([{ order: { status: 'completed' }, reservation: { state: 'spent' } }])
  })

  test('when the seller dies before it has seen the payment, and comes back', async () => {
    const { buyer, seller, kill, revive } = await market()
    seller.deps.payments.claimExposed = () => new Promise(() => {})
    const buying = buyer.execute()
    await until(async () => (await buyer.ledger()).length === 1 && seller.deps.running.size === 1)
    kill()
    const second = await revive()
    expect((await buying).output).toBe('re: task')
    expect([seller.runs.length, second.runs.length]).toEqual([0, 1])
    expect(await buyer.spent()).toBe(10_000n)
  })

  test('when the seller dies after it has stored the result', async () => {
    const { buyer, seller, kill, revive } = await market({ attemptTimeoutMs: 100 })
    seller.settlement.plan.push({ moves: true, answer: 'hang' })
    const buying = buyer.execute()
    await until(() => seller.settlement.attempts.length === 1)
    kill()
    const second = await revive()
    expect((await buying).output).toBe('re: task')
    expect([seller.runs.length, second.runs.length]).toEqual([1, 0])
  })

  test('and none, and no charge, when the seller dies while the agent runs', async () => {
    const { buyer, seller, kill, revive } = await market()
    const gate = Promise.withResolvers<string>()
    seller.work = () => gate.promise
    const buying = buyer.execute()
    buying.catch(() => {})
    await until(() => seller.runs.length === 1)
    kill()
    await revive()
    await expect(buying).rejects.toMatchObject({
      code: 'EXECUTION_FAILED',
      message: expect.stringContaining('nothing is charged'),
    })
    expect(seller.settlement.attempts).toEqual([])
    gate.resolve('of the dead')
  })

  test('when the seller has forgotten its challenge', async () => {
    const { buyer, seller } = await market()
    const { find } = seller.challenges
    const forgotten = new Set<string>()
    seller.challenges.find = (asked, now) => {
      if (forgotten.size === 0) forgotten.add(asked.nonce)
      const isForgotten = forgotten.has(asked.nonce)
      return isForgotten ? { error: 'PAYMENT_NONCE_MISMATCH' } : find.call(seller.challenges, asked, now)
    }
    expect((await buyer.execute()).output).toBe('re: task')
    expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([1, 1])
  })

  test('when it buys more at once than the seller keeps challenges for', async () => {
    const { buyer, seller } = await market({ slots: { concurrentMax: 16, waitingMax: 256 }, dailyBudget: 10_000_000n })
    const results = await Promise.all(Array.from({ length: 100 }, (_, index) => buyer.execute({ input: `${index}` })))
    expect(results.map(({ output }) => output)).toEqual(Array.from({ length: 100 }, (_, index) => `re: ${index}`))
    expect([seller.runs.length, await buyer.spent()]).toEqual([100, 1_000_000n])
  })

  test('when there was no place to run at first', async () => {
    const { buyer, seller } = await market({ slots: { concurrentMax: 1, waitingMax: 0 } })
    const gate = Promise.withResolvers<string>()
    seller.work = () => gate.promise
    const first = buyer.execute()
    await until(() => seller.runs.length === 1)
    const second = buyer.execute()
    await until(async () => (await buyer.ledger()).length === 2)
    gate.resolve('done')
    expect([(await first).output, (await second).output]).toEqual(['done', 'done'])
    expect((await buyer.ledger()).map(({ reservation }) => reservation?.state)).toEqual(['spent', 'spent'])
    expect(await buyer.spent()).toBe(20_000n)
  })

  test('when a seller that settles first is told the money only later', async () => {
    const { buyer, seller } = await market({ settleFirst: true, attemptTimeoutMs: 100 })
    seller.settlement.plan.push({ moves: true, answer: 'hang' })
    const buying = buyer.execute()
    await until(() => seller.settlement.attempts.length === 1)
    await until(async () => (await buyer.ledger()).length === 1)
    const turn = setInterval(() => seller.clock.advance(1_000), 20)
    expect((await buying).output).toBe('re: task')
    clearInterval(turn)
    expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([1, 1])
  })

  test('not, for good, when a seller that settles first can never be paid', async () => {
    const { buyer, seller } = await market({ settleFirst: true })
    seller.settlement.usual = { moves: false, answer: { kind: 'refused', reason: 'no money' } }
    await expect(buyer.execute()).rejects.toMatchObject({ code: 'SETTLEMENT_FAILED', retryable: false })
    expect(await buyer.ledger()).toMatchObject([{ order: { status: 'failed' } }])
    expect(seller.runs).toEqual([])
  })
})

describe('one purchase is signed for once, whatever the seller does', () => {
  test('when it answers that the payment was used, and then gives the result', async () => {
    const { seller, buyer } = scripted(async (stream) => {
      for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
        if (message.type !== 'x402.request') await stream.refuse(message, 'PAYMENT_NONCE_USED', { error_code: 2004 })
        else if (message.message.method === 'result') await stream.respond(message)
        else await stream.challenge(message)
      }
    })
    expect((await buyer.execute()).output).toBe('result')
    expect(new Set(envelopes(seller).map((payload) => payload?.authorization.nonce)).size).toBe(1)
  })

  test('when it asks to be paid again', async () => {
    const { seller, buyer } = scripted(async (stream) => {
      for (let message = await stream.next(); message !== undefined; message = await stream.next())
        await stream.challenge(message)
    })
    await expect(buyer.execute()).rejects.toMatchObject({ code: 'PAYMENT_REQUIRED' })
    expect(envelopes(seller)).toHaveLength(1)
    expect(await buyer.ledger()).toMatchObject([{ order: { status: 'failed' }, reservation: { state: 'reserved' } }])
  })

  test('when it knows nothing of the payment, the same is sent again, as long as it can still be settled', async () => {
    const { seller, buyer } = scripted(async (stream) => {
      for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
        const { type } = message
        if (type === 'x402.paid_request') return stream.raw.abort(new Error('lost'))
        if (type !== 'x402.request') return
        if (message.message.method === 'result')
          await stream.refuse(message, 'PAYMENT_REQUIRED', { error_code: 2000, retryable: true })
        else if (message.message.payment === null) await stream.challenge(message)
        else await stream.respond(message)
      }
    })
    expect((await buyer.execute()).output).toBe('result')
    const payments = envelopes(seller)
    expect(payments.length).toBeGreaterThanOrEqual(3)
    expect(new Set(payments.map((payload) => payload?.signature)).size).toBe(1)
  })

  test('and is not sent again once it could no longer be settled in time', async () => {
    const { seller, buyer } = scripted(async (stream) => {
      for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
        if (message.type === 'x402.paid_request') {
          buyer.clock.advance(170_000)
          return stream.raw.abort(new Error('lost'))
        }
        if (message.type === 'x402.request' && message.message.method === 'result') {
          await stream.refuse(message, 'PAYMENT_REQUIRED', { error_code: 2000, retryable: true })
        } else await stream.challenge(message)
      }
    })
    await expect(buyer.execute()).rejects.toMatchObject({ code: 'PAYMENT_REQUIRED' })
    const preemptive = seller.received.filter(
      ({ message }) => 'payment' in message && message.payment?.server_nonce === 'preemptive',
    )
    expect(preemptive).toEqual([])
  })
})

describe('a result that is paid for is taken, and what is odd in its response is noted', () => {
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  const odd: [what: string, changes: object, output: string, note: string][] = [
    ['has no payment_id', { payment_id: undefined }, 'result', 'payment_id'],
    ['has an empty payment_id', { payment_id: '' }, 'result', 'payment_id'],
    ['names another payment', { payment_id: `0x${'9'.repeat(64)}` }, 'result', 'payment_id is that of another'],
    [
      'has no seller_token_id and no seller_did',
      { seller_token_id: null, seller_did: undefined },
      'result',
      'seller_did',
    ],
    ['has a tx_hash that is none', { tx_hash: 'soon' }, 'result', 'tx_hash'],
    ['has another version', { version: '2.0' }, 'result', 'version'],
    ['has a body without padding', { body: base64('results?').replace(/=+$/, '') }, 'results?', 'body'],
    ['has a body of the other alphabet', { body: Buffer.from('>>>???').toString('base64url') }, '>>>???', 'body'],
    ['has its text as body', { body: 'the result.' }, 'the result.', 'not base64'],
    ['has JSON as body', { body: { answer: 42 } }, '{"answer":42}', 'not base64'],
  ]
  test.each(odd)('when it %s', async (_what, changes, output, note) => {
    const { buyer } = scripted(async (stream) => {
      await stream.challenge(await stream.next())
      await stream.respond(await stream.next(), changes)
    })
    const result = await buyer.execute({ agentId })
    const [{ order, reservation } = {}] = await buyer.ledger()
    expect([result.output, order?.output, reservation?.state]).toEqual([output, output, 'spent'])
    expect(result.notes?.join('; ')).toContain(note)
    expect(order?.notes).toEqual(result.notes)
    expect(result.payment?.payment_id).toBe(reservation?.paymentId)
  })

  test('when its bytes are not UTF-8: they are kept as they are', async () => {
    const bytes = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0xff, 0x00])
    const { buyer } = scripted(async (stream) => {
      await stream.challenge(await stream.next())
      await stream.respond(await stream.next(), { body: bytes.toString('base64') })
    })
    const result = await buyer.execute({ agentId })
    expect(result).toMatchObject({ output_base64: bytes.toString('base64'), output: bytes.toString() })
    expect(Buffer.from((await buyer.ledger())[0]!.order.outputBytes!)).toEqual(bytes)
  })

  test('and a response that cannot be read is asked for again', async () => {
    const { buyer, seller } = scripted(async (stream) => {
      if (stream.index === 0) await stream.challenge(await stream.next())
      const paid = await stream.next()
      if (stream.index === 0) await stream.send('x402.response', { correlation_id: paid?.message.correlation_id })
      for (let again = await stream.next(); again !== undefined; again = await stream.next())
        await stream.respond(again)
    })
    expect((await buyer.execute()).output).toBe('result')
    expect(seller.received.at(-1)).toMatchObject({ message: { method: 'result' } })
  })

  test('and one in the ordinary form has no notes', async () => {
    const { buyer } = await market()
    expect(await buyer.execute()).not.toHaveProperty('notes')
  })
})

describe('a seller that says nothing', () => {
  test('at first is waited for no longer than it may take to name its price, and nothing is signed', async () => {
    const { buyer, seller } = scripted(async (stream) => {
      await stream.next()
      await stream.next()
    })
    buyer.deps.firstAnswerMs = 20
    await expect(buyer.execute()).rejects.toMatchObject({ code: 'DEADLINE' })
    expect([seller.opened, (await buyer.ledger())[0]?.reservation]).toEqual([1, undefined])
  })

  test('but shows a word of work first does not hold its caller for longer than a run', async () => {
    const { buyer } = scripted(async (stream) => {
      const asked = await stream.next()
      await stream.send('x402.output', {
        ...{ version: '1.0', text: 'soon …' },
        correlation_id: asked?.message.correlation_id,
      })
      await stream.next()
    })
    Object.assign(buyer.deps, { firstAnswerMs: 5_000, shownWorkMs: 20 })
    const shown: string[] = []
    const onProgress = (progress: { type: string; data: unknown }) => void shown.push(progress.type)
    await expect(buyer.execute({ onProgress })).rejects.toMatchObject({ code: 'DEADLINE' })
    expect([shown.includes('output'), (await buyer.ledger())[0]?.reservation]).toEqual([true, undefined])
  })

  test('after payment is waited for until the window has ended; then the order is in doubt', async () => {
    const { buyer } = scripted(async (stream) => {
      await stream.challenge(await stream.next())
      for (;;) await stream.next()
    })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      let end: unknown
      const buying = buyer.execute({ signal: new AbortController().signal }).catch((error: unknown) => {
        end = error
      })
      // Real time goes on beside the hands of the clock: streams need turns of the event loop.
      const turn = () => new Promise<void>((resolve) => setImmediate(resolve))
      while ((await buyer.ledger())[0]?.reservation === undefined) await turn()
      const { validBeforeSeconds } = (await buyer.ledger())[0]!.reservation!
      const windowMs = validBeforeSeconds * 1000 - buyer.clock.now()
      await vi.advanceTimersByTimeAsync(windowMs)
      await turn()
      expect(end).toBeUndefined()
      await vi.advanceTimersByTimeAsync(31_000)
      await buying
      expect(end).toMatchObject({ code: 'RESULT_PENDING' })
      expect(await buyer.ledger()).toMatchObject([
        { order: { status: 'executing' }, reservation: { state: 'reserved' } },
      ])
    } finally {
      vi.useRealTimers()
    }
  })
})
