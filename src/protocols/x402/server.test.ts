import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { endProcess } from '../../../test/support/end-process.ts'
import { unclear } from '../../../test/support/fake-settlement.ts'
import { agentId, randomHex, requirements, signed, testWallet, usdc } from '../../../test/support/payments.ts'
import { startSeller } from '../../../test/support/started-seller.ts'
import { until } from '../../../test/support/until.ts'
import { base64, type TestSeller, told } from '../../../test/support/x402-seller.ts'
import { AgentError } from '../../agents/runtime.ts'
import { authorizationDigest, signDigest } from '../../payments/authorization.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import type { Hex } from '../../schema/primitives.ts'
import { type X402ErrorName, x402Errors } from '../../schema/x402.ts'
import { encodeTextFrame } from '../frame.ts'

type Payload = NonNullable<PaymentEnvelope['payload']>

/** The same payment with another authorization in it, signed anew by the same buyer. */
function resigned(payment: PaymentEnvelope, changes: Partial<Payload['authorization']>): PaymentEnvelope {
  const authorization = { ...payment.payload!.authorization, ...changes }
  const signature = signDigest(authorizationDigest(usdc, authorization), Buffer.alloc(32, 1))
  return { ...payment, payload: { signature, authorization } }
}

describe('the standard flow', () => {
  test('asks for payment, runs once, settles and answers with the transaction', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { answer, payment, paymentId, correlation_id } = await peer.buy('a task')
    const { from, nonce } = payment.payload!.authorization
    const use = seller.settlement.useOf(from, nonce) as { txHash: Hex }
    expect(answer).toEqual({
      type: 'x402.response',
      message: {
        version: '1.0',
        correlation_id,
        payment_id: paymentId,
        tx_hash: use.txHash,
        body: base64('re: a task'),
        seller_did: 'did:seller',
        seller_token_id: '',
        receipt: expect.objectContaining({ format: 'eip712' }),
      },
    })
    expect(seller.runs).toEqual([{ input: 'a task', callerId: 'did:buyer' }])
  })

  test('challenges with what the agent costs, bound to this request for 300 s (D26)', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const correlation_id = randomUUID()
    const asked = await peer.request({ correlation_id })
    expect(asked?.message).toMatchObject({
      correlation_id,
      challenge_nonce: expect.stringMatching(/^0x[0-9a-f]{64}$/),
      challenge_expires_at: seller.clock.now() / 1000 + 300,
      payment_requirements: requirements(),
      seller_did: 'did:seller',
    })
  })

  test('answers with an empty tx_hash while settlement is pending, and never makes the buyer wait for more', async () => {
    const seller = await startSeller()
    seller.settlement.usual = unclear
    const { answer } = await (await seller.connect()).buy()
    expect(answer?.message).toMatchObject({ tx_hash: '', body: base64('re: task') })
  })

  test('a preemptive payment skips the challenge', async () => {
    const seller = await startSeller()
    const { envelope } = signed(seller.clock.now())
    expect(told(await (await seller.connect()).request({ payment: envelope }))).toBe('re: task')
    expect(seller.settlement.attempts).toHaveLength(1)
  })

  test('a free agent is run without payment, and a payment that comes with it is not touched', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { envelope } = signed(seller.clock.now())
    for (const payment of [null, envelope]) {
      const answer = await peer.request({ resource: 'free', payment })
      expect(told(answer)).toBe('re: task')
      expect(answer?.message).toMatchObject({ payment_id: `0x${'0'.repeat(64)}`, tx_hash: '' })
    }
    expect(await seller.payments.counts()).toEqual({ owed: 0, unsettled: 0 })
    expect(seller.settlement.attempts).toEqual([])
  })
})

describe('D23: streams', () => {
  test('carry one exchange after the other', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    for (let index = 0; index < 20; index++) expect(told((await peer.buy(`${index}`)).answer)).toBe(`re: ${index}`)
    expect(seller.runs).toHaveLength(20)
  })

  test('carry many exchanges at once, each known by its correlation id', async () => {
    const seller = await startSeller({ slots: { concurrentMax: 50, waitingMax: 0 } })
    const peer = await seller.connect()
    const ids = Array.from({ length: 40 }, () => randomUUID())
    const { promise: open, resolve } = Promise.withResolvers<void>()
    seller.work = async ({ input }) => {
      if (seller.runs.length === 16) resolve()
      await open
      return input
    }
    for (const [index, correlation_id] of ids.entries()) {
      const { envelope } = signed(seller.clock.now())
      await peer.send(
        'x402.request',
        peer.message({
          correlation_id,
          resource: agentId,
          method: 'execute',
          payment: envelope,
          body: base64(`${index}`),
        }),
      )
    }
    const answers = new Map<unknown, unknown>()
    while (answers.size < ids.length) {
      const answer = await peer.next()
      answers.set(answer?.message.correlation_id, told(answer))
    }
    expect(ids.map((id) => answers.get(id))).toEqual(ids.map((_, index) => `${index}`))
  })

  test('a paid_request is taken on another stream than its challenge’s', async () => {
    const seller = await startSeller()
    const [first, second] = [await seller.connect(), await seller.connect()]
    const { payment, correlation_id } = await first.challenged()
    await first.raw.close()
    expect(told(await second.paidRequest(payment, { correlation_id }))).toBe('re: task')
  })

  test('a client that ends its side still gets every answer', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    for (let index = 0; index < 10; index++) {
      const { envelope } = signed(seller.clock.now())
      await peer.send('x402.request', peer.message({ resource: agentId, method: 'execute', payment: envelope }))
    }
    await peer.raw.close()
    for (let index = 0; index < 10; index++) expect(told(await peer.next())).toBe('re: task')
    expect(await peer.next()).toBeUndefined()
  })

  test('a task goes on without its caller, who finds the result later', async () => {
    const seller = await startSeller()
    const gate = Promise.withResolvers<void>()
    seller.work = async () => {
      await gate.promise
      return 'late'
    }
    const peer = await seller.connect()
    const { payment, paymentId, correlation_id } = await peer.challenged()
    await peer.send('x402.paid_request', peer.message({ payment, correlation_id }))
    await until(() => seller.runs.length === 1)
    await peer.raw.close()
    gate.resolve()
    await until(() => seller.exchanges.paidOutput(paymentId))
    expect(told(await (await seller.connect()).askResult(payment))).toBe('late')
  })

  test('a stream that the buyer resets cancels its task, and the payment is void', async () => {
    const seller = await startSeller()
    seller.work = ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(new AgentError('AGENT_CANCELLED', 'the task was canceled')))
      })
    const peer = await seller.connect()
    const { payment, paymentId, correlation_id } = await peer.challenged()
    await peer.send('x402.paid_request', peer.message({ payment, correlation_id }))
    await until(() => seller.runs.length === 1)
    peer.raw.abort(new Error('changed my mind'))
    await until(async () => (await seller.payments.get(paymentId))?.state === 'voided')
    expect(seller.settlement.attempts).toEqual([])
  })
})

describe('every refusal has its row of the error table', () => {
  type Act = (seller: TestSeller) => Promise<{ answer: unknown; message: string }>
  const errorOf = async (
    seller: TestSeller,
    send: (peer: Awaited<ReturnType<TestSeller['connect']>>) => Promise<unknown>,
  ) => {
    const peer = await seller.connect()
    const answer = (await send(peer)) as { type: string; message: { error_name: string; message: string } } | undefined
    return { answer, message: answer?.message.message ?? '' }
  }
  const cases: [X402ErrorName, string, Act, RegExp?][] = [
    [
      'INVALID_MESSAGE',
      'a message without its fields',
      (seller) => errorOf(seller, (peer) => peer.send('x402.request', { a: 1 }).then(() => peer.next())),
    ],
    [
      'INVALID_MESSAGE',
      'a type nobody knows',
      (seller) => errorOf(seller, (peer) => peer.send('x402.refund', {}).then(() => peer.next())),
    ],
    [
      'INVALID_MESSAGE',
      'a message that only a server sends',
      (seller) =>
        errorOf(seller, (peer) =>
          peer
            .send('x402.error', {
              version: '1.0',
              correlation_id: randomUUID(),
              error_code: 1,
              error_name: 'X',
              message: '',
              retryable: true,
            })
            .then(() => peer.next()),
        ),
    ],
    [
      'INVALID_MESSAGE',
      'a task that is no UTF-8',
      (seller) =>
        errorOf(seller, (peer) => peer.request({ resource: 'free', body: Buffer.from([0xff]).toString('base64') })),
    ],
    [
      'INVALID_MESSAGE',
      'a frame of no type',
      (seller) =>
        errorOf(seller, async (peer) => {
          peer.raw.send(Uint8Array.of(0, 0))
          return peer.next()
        }),
    ],
    [
      'UNKNOWN_RESOURCE',
      'an agent that is not ours (T1)',
      (seller) => errorOf(seller, (peer) => peer.request({ resource: 'elsewhere' })),
    ],
    [
      'UNKNOWN_RESOURCE',
      'the resource of every object',
      (seller) => errorOf(seller, (peer) => peer.request({ resource: '__proto__' })),
    ],
    [
      'UNKNOWN_RESOURCE',
      'an agent that is not ours, paid for in advance (T1)',
      (seller) =>
        errorOf(seller, (peer) =>
          peer.request({ resource: 'elsewhere', payment: signed(seller.clock.now()).envelope }),
        ),
    ],
    [
      'PAYMENT_REQUIRED',
      'a result asked for without the payment',
      (seller) => errorOf(seller, (peer) => peer.askResult(null)),
    ],
    [
      'PAYMENT_INVALID',
      'another network',
      (seller) =>
        errorOf(seller, (peer) =>
          peer.request({ payment: { ...signed(seller.clock.now()).envelope, network: 'eip155:8453' } }),
        ),
    ],
    [
      'PAYMENT_INVALID',
      'an envelope without payload',
      (seller) =>
        errorOf(seller, (peer) =>
          peer.request({ payment: { ...signed(seller.clock.now()).envelope, payload: undefined } }),
        ),
    ],
    [
      'PAYMENT_NONCE_MISMATCH',
      'a request paid under a challenge',
      (seller) =>
        errorOf(seller, (peer) =>
          peer.request({ payment: signed(seller.clock.now(), { serverNonce: randomHex() }).envelope }),
        ),
    ],
    [
      'PAYMENT_NONCE_MISMATCH',
      'a paid_request without a challenge',
      (seller) => errorOf(seller, (peer) => peer.paidRequest(signed(seller.clock.now()).envelope)),
    ],
    [
      'PAYMENT_NONCE_MISMATCH',
      'a challenge nobody issued',
      (seller) =>
        errorOf(seller, (peer) => peer.paidRequest(signed(seller.clock.now(), { serverNonce: randomHex() }).envelope)),
    ],
    [
      'PAYMENT_NONCE_EXPIRED',
      'a challenge of more than 300 s ago',
      (seller) =>
        errorOf(seller, async (peer) => {
          const { payment, correlation_id } = await peer.challenged()
          seller.clock.advance(300_000)
          return peer.paidRequest(payment, { correlation_id })
        }),
    ],
    [
      'PAYMENT_NONCE_USED',
      'a paid_request that comes again',
      (seller) =>
        errorOf(seller, async (peer) => {
          const { payment, correlation_id } = await peer.buy()
          return peer.paidRequest(payment, { correlation_id })
        }),
    ],
    [
      'PAYMENT_AMOUNT_WRONG',
      'too little',
      (seller) =>
        errorOf(seller, (peer) =>
          peer.request({ payment: resigned(signed(seller.clock.now()).envelope, { value: 9_999n }) }),
        ),
    ],
    [
      'PAYMENT_AMOUNT_WRONG',
      'too much',
      (seller) =>
        errorOf(seller, (peer) =>
          peer.request({ payment: resigned(signed(seller.clock.now()).envelope, { value: 10_001n }) }),
        ),
    ],
    [
      'EXECUTION_FAILED',
      'an agent that fails',
      (seller) => {
        seller.work = () => Promise.reject(new AgentError('AGENT_FAILED', 'the model is out of order'))
        return errorOf(seller, (peer) => peer.buy().then(({ answer }) => answer))
      },
      /the model is out of order/,
    ],
    [
      'OVERLOADED',
      'more requests than a peer may make (D36)',
      async () => {
        const limited = await startSeller({ limits: { requestsPerSecond: 1 } })
        return errorOf(limited, async (peer) => {
          await peer.request({ resource: 'free' })
          await peer.request({ resource: 'free' })
          return peer.request({ resource: 'free' })
        })
      },
    ],
  ]
  test.each(cases)('%s: %s', async (name, _what, act, reason) => {
    const seller = await startSeller()
    const { answer, message } = await act(seller)
    const { code, retryable } = x402Errors[name]
    expect(answer).toMatchObject({ type: 'x402.error', message: { error_code: code, error_name: name, retryable } })
    expect(message).toMatch(reason ?? /.+/)
  })

  test('SETTLEMENT_FAILED: a seller that settles first, while the facilitator is down, runs nothing', async () => {
    const seller = await startSeller({ settleFirst: true })
    seller.settlement.usual = unclear
    const { answer } = await (await seller.connect()).buy()
    expect(answer).toMatchObject({ type: 'x402.error', message: { error_code: 2007, retryable: true } })
    expect(seller.runs).toEqual([])
  })
})

test('D24: after a message it cannot read the server says so and ends the stream', async () => {
  const seller = await startSeller()
  const peer = await seller.connect()
  const correlation_id = randomUUID()
  await peer.send('x402.request', { correlation_id })
  const answer = await peer.next()
  expect(answer?.message).toMatchObject({ correlation_id, error_name: 'INVALID_MESSAGE' })
  expect(await peer.next()).toBeUndefined()
})

test('D24: what was asked before a broken frame is still answered', async () => {
  const seller = await startSeller()
  const peer = await seller.connect()
  const { envelope } = signed(seller.clock.now())
  await peer.send('x402.request', peer.message({ resource: agentId, method: 'execute', payment: envelope }))
  peer.raw.send(Uint8Array.of(0xff, 0xff))
  expect(told(await peer.next())).toBe('re: task')
  expect(told(await peer.next())).toBe('INVALID_MESSAGE')
})

describe('D27: the first check that fails names the error', () => {
  const everythingWrong = (payment: PaymentEnvelope): PaymentEnvelope => ({
    ...resigned(payment, { value: 1n, to: testWallet(4).address, validBefore: 0n }),
    network: 'eip155:8453',
  })

  test('shape before resource before payment', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const wrong = everythingWrong(signed(seller.clock.now()).envelope)
    expect(told(await peer.request({ resource: 'elsewhere', payment: wrong }))).toBe('UNKNOWN_RESOURCE')
    expect(told(await peer.request({ resource: 'elsewhere', method: 'pay', payment: wrong }))).toBe('INVALID_MESSAGE')
  })

  test('nonce before scheme, network, asset and payTo', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const wrong = everythingWrong({ ...signed(seller.clock.now()).envelope, server_nonce: randomHex() })
    expect(told(await peer.paidRequest(wrong))).toBe('PAYMENT_NONCE_MISMATCH')
  })

  test('used before expired', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { payment, correlation_id } = await peer.buy()
    seller.clock.advance(300_001)
    expect(told(await peer.paidRequest(payment, { correlation_id }))).toBe('PAYMENT_NONCE_USED')
  })

  test('used before everything that is said of the payment itself', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { payment } = await peer.buy()
    const again = { ...payment, server_nonce: 'preemptive' as const }
    expect(told(await peer.request({ payment: everythingWrong(again) }))).toBe('PAYMENT_NONCE_USED')
  })

  test('expired before the payment itself', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { payment, correlation_id } = await peer.challenged()
    seller.clock.advance(300_000)
    expect(told(await peer.paidRequest(everythingWrong(payment), { correlation_id }))).toBe('PAYMENT_NONCE_EXPIRED')
  })

  test('payTo before amount before window', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { envelope } = signed(seller.clock.now())
    const elsewhere = resigned(envelope, { to: testWallet(4).address, value: 1n, validBefore: 0n })
    expect(told(await peer.request({ payment: elsewhere }))).toBe('PAYMENT_INVALID')
    expect(told(await peer.request({ payment: resigned(envelope, { value: 1n, validBefore: 0n }) }))).toBe(
      'PAYMENT_AMOUNT_WRONG',
    )
    expect(told(await peer.request({ payment: resigned(envelope, { validBefore: 0n }) }))).toBe('PAYMENT_INVALID')
  })
})

describe('T4: a challenge', () => {
  test('is of no use to another peer, and stays its own peer’s', async () => {
    const seller = await startSeller()
    const [alice, mallory] = [await seller.connect('alice'), await seller.connect('mallory')]
    const { payment, correlation_id } = await alice.challenged()
    expect(told(await mallory.paidRequest(payment, { correlation_id }))).toBe('PAYMENT_NONCE_MISMATCH')
    expect(told(await alice.paidRequest(payment, { correlation_id }))).toBe('re: task')
  })

  test('is of no use under another correlation id', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { payment, correlation_id } = await peer.challenged()
    expect(told(await peer.paidRequest(payment))).toBe('PAYMENT_NONCE_MISMATCH')
    expect(told(await peer.paidRequest(payment, { correlation_id }))).toBe('re: task')
  })

  test('buys a run of the agent it was asked for, whatever that costs now', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { payment, correlation_id } = await peer.challenged()
    seller.addAgent({ amount: 20_000n })
    expect(told(await peer.paidRequest(payment, { correlation_id }))).toBe('PAYMENT_AMOUNT_WRONG')
    seller.agents.delete(agentId)
    expect(told(await peer.paidRequest(payment, { correlation_id }))).toBe('UNKNOWN_RESOURCE')
  })

  test('and its authorization are not consumed by a payment that is refused', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { payment, correlation_id } = await peer.challenged()
    const forged = { ...payment, payload: { ...payment.payload!, signature: `0x${'11'.repeat(64)}1b` as Hex } }
    const wrong = [
      forged,
      { ...payment, payer: testWallet(9).address },
      { ...payment, network: 'eip155:8453' },
      { ...payment, scheme: 'upto' },
      { ...payment, payload: undefined },
      resigned(payment, { value: 1n }),
      resigned(payment, { validBefore: 0n }),
      resigned(payment, { validAfter: 2n ** 200n, validBefore: 2n ** 201n }),
      resigned(payment, { to: testWallet(9).address }),
    ]
    for (const refused of wrong) {
      expect(told(await peer.paidRequest(refused as PaymentEnvelope, { correlation_id }))).toMatch(
        /^PAYMENT_(INVALID|AMOUNT)/,
      )
    }
    const body = Buffer.from([0xff]).toString('base64')
    expect(told(await peer.paidRequest(payment, { correlation_id, body }))).toBe('INVALID_MESSAGE')
    expect(told(await peer.paidRequest(payment, { correlation_id }))).toBe('re: task')
    expect(seller.runs).toHaveLength(1)
  })

  test('is not consumed when there is no place to run', async () => {
    const seller = await startSeller({ slots: { concurrentMax: 1, waitingMax: 0 } })
    const gate = Promise.withResolvers<void>()
    seller.work = async () => {
      await gate.promise
      return 'done'
    }
    const [busy, peer] = [await seller.connect('busy'), await seller.connect()]
    const first = busy.buy()
    await until(() => seller.runs.length === 1)
    const { payment, correlation_id } = await peer.challenged()
    expect(told(await peer.paidRequest(payment, { correlation_id }))).toBe('OVERLOADED')
    gate.resolve()
    expect(told((await first).answer)).toBe('done')
    expect(told(await peer.paidRequest(payment, { correlation_id }))).toBe('done')
  })

  test('T16: is not consumed when the disk is full at the claim, and nothing runs', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { payment, paymentId, correlation_id } = await peer.challenged()
    const { claimExposed } = seller.deps.payments
    seller.deps.payments.claimExposed = () => Promise.reject(new Error('disk full at /home/seller'))
    const answer = await peer.paidRequest(payment, { correlation_id })
    expect(answer?.message).toMatchObject({ error_code: 3000, retryable: false })
    expect(JSON.stringify(answer)).not.toContain('/home')
    expect(await seller.payments.get(paymentId)).toBeUndefined()
    seller.deps.payments.claimExposed = claimExposed
    expect(told(await peer.paidRequest(payment, { correlation_id }))).toBe('re: task')
    expect(seller.runs).toHaveLength(1)
  })
})

describe('T5: one authorization buys one run', () => {
  test('when it is sent on many streams, by two peers and under many ids at the same time', async () => {
    const seller = await startSeller()
    const { envelope } = signed(seller.clock.now())
    const peers = await Promise.all(
      Array.from({ length: 12 }, (_, index) => seller.connect(index % 2 === 0 ? 'alice' : 'mallory')),
    )
    const answers = await Promise.all(peers.map((peer) => peer.request({ payment: envelope })))
    const outcomes = answers.map(told)
    expect(outcomes.filter((outcome) => outcome === 're: task')).toHaveLength(1)
    expect(outcomes.filter((outcome) => outcome === 'PAYMENT_NONCE_USED')).toHaveLength(11)
    expect(seller.runs).toHaveLength(1)
    expect(seller.settlement.attempts).toHaveLength(1)
  })

  test('when the same paid_request is sent twenty times at once on one stream', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { payment, correlation_id } = await peer.challenged()
    const frame = encodeTextFrame(
      'x402.paid_request',
      JSON.stringify(peer.message({ payment, correlation_id }), (_key, value) =>
        typeof value === 'bigint' ? value.toString() : value,
      ),
    )
    peer.raw.send(Buffer.concat(Array.from({ length: 20 }, () => frame)))
    const outcomes = []
    for (let index = 0; index < 20; index++) outcomes.push(told(await peer.next()))
    expect(outcomes.filter((outcome) => outcome === 're: task')).toHaveLength(1)
    expect(outcomes.filter((outcome) => outcome === 'PAYMENT_NONCE_USED')).toHaveLength(19)
    expect(seller.runs).toHaveLength(1)
  })

  test('when the ledger alone still knows of it: what is not claimed does not run', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { payment } = await peer.buy()
    const preemptive = { ...payment, server_nonce: 'preemptive' }
    seller.deps.payments.authorizationSeen = async () => false
    expect(told(await peer.request({ payment: preemptive }))).toBe('PAYMENT_NONCE_USED')
    expect(seller.runs).toHaveLength(1)
  })

  test('when it comes under a second challenge', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const first = await peer.buy()
    const second = await peer.challenged()
    const again = { ...first.payment, server_nonce: second.payment.server_nonce }
    expect(told(await peer.paidRequest(again, { correlation_id: second.correlation_id }))).toBe('PAYMENT_NONCE_USED')
    expect(told(await peer.paidRequest(second.payment, { correlation_id: second.correlation_id }))).toBe('re: task')
  })

  test('when it is sent for another agent of the same price', async () => {
    const seller = await startSeller()
    seller.addAgent({ id: 'twin' })
    const peer = await seller.connect()
    const { payment } = await peer.buy()
    const preemptive = { ...payment, server_nonce: 'preemptive' }
    expect(told(await peer.request({ resource: 'twin', payment: preemptive }))).toBe('PAYMENT_NONCE_USED')
  })

  test('when it comes again with v of 0 or 1 or in other letters (D30)', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { payment } = await peer.buy()
    const { signature, authorization } = payment.payload!
    const asGo = `${signature.slice(0, -2)}${signature.endsWith('1b') ? '00' : '01'}` as Hex
    const shouted = {
      ...authorization,
      nonce: authorization.nonce.toUpperCase().replace('0X', '0x') as Hex,
      from: authorization.from.toLowerCase() as Hex,
    }
    for (const payload of [
      { signature: asGo, authorization },
      { signature, authorization: shouted },
    ]) {
      const again = { ...payment, server_nonce: 'preemptive' as const, payload }
      expect(told(await peer.request({ payment: again }))).toBe('PAYMENT_NONCE_USED')
    }
    expect(seller.runs).toHaveLength(1)
  })

  test('after a restart of the seller', async () => {
    const first = await startSeller()
    const { payment, correlation_id } = await (await first.connect()).buy()
    await first.stop()
    const second = await startSeller({
      database: endProcess(first.database),
      settlement: first.settlement,
      clock: first.clock,
    })
    const peer = await second.connect()
    expect(told(await peer.paidRequest(payment, { correlation_id }))).toBe('PAYMENT_NONCE_USED')
    expect(told(await peer.request({ payment: { ...payment, server_nonce: 'preemptive' } }))).toBe('PAYMENT_NONCE_USED')
    expect(told(await peer.askResult(payment))).toBe('re: task')
    expect(second.runs).toHaveLength(0)
  })

  test('and one challenge one run, whatever authorizations come with it at once', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const { payment, correlation_id } = await peer.challenged()
    const others = Array.from({ length: 5 }, () => resigned(payment, { nonce: randomHex() }))
    for (const other of [payment, ...others])
      await peer.send('x402.paid_request', peer.message({ payment: other, correlation_id }))
    const outcomes = []
    for (let index = 0; index < 6; index++) outcomes.push(told(await peer.next()))
    expect(outcomes.filter((outcome) => outcome === 're: task')).toHaveLength(1)
    expect(outcomes.filter((outcome) => outcome === 'PAYMENT_NONCE_USED')).toHaveLength(5)
    expect(seller.runs).toHaveLength(1)
  })
})

describe('T9: the caller', () => {
  test('is who the connection proves, whatever the message says', async () => {
    const seller = await startSeller()
    const mallory = await seller.connect('mallory')
    await mallory.request({ resource: 'free', caller_did: 'did:alice' })
    const { envelope } = signed(seller.clock.now())
    await mallory.request({ payment: envelope, caller_did: 'did:alice' })
    expect(seller.runs.map(({ callerId }) => callerId)).toEqual(['did:mallory', 'did:mallory'])
    expect(await seller.exchanges.history('free', 'did:alice', 10)).toEqual([])
    expect(await seller.exchanges.history('free', 'did:mallory', 10)).toHaveLength(1)
    expect(seller.log.flat()).toContainEqual(expect.objectContaining({ caller_did: 'did:alice', peer_id: 'mallory' }))
  })
})

describe('a run that fails', () => {
  test('is void: the buyer is told so, and nothing is ever settled', async () => {
    const seller = await startSeller()
    seller.work = () => Promise.reject(new AgentError('AGENT_TIMEOUT', 'too slow'))
    const peer = await seller.connect()
    const { answer, payment, paymentId } = await peer.buy()
    expect(answer?.message).toMatchObject({ error_code: 3000, message: 'too slow' })
    expect(await seller.payments.get(paymentId)).toMatchObject({ state: 'voided', error: 'too slow' })
    const later = await peer.askResult(payment)
    expect(later?.message).toMatchObject({ error_code: 3000, message: expect.stringContaining('nothing is charged') })
    expect(seller.settlement.attempts).toEqual([])
  })

  test('for a reason of ours alone tells the buyer none of it', async () => {
    const seller = await startSeller()
    seller.work = () => Promise.reject(new Error('ENOENT /home/seller/key sk-secret'))
    const { answer } = await (await seller.connect()).buy()
    expect(answer?.message).toMatchObject({ error_code: 3000, message: 'the agent failed' })
  })
})

describe('a buyer that wraps its task, as the original node does,', () => {
  const wrapped = (resource: string, input: string) =>
    Buffer.from(JSON.stringify({ resource, input })).toString('base64')

  test('has its task unwrapped, and its answer wrapped', async () => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const body = wrapped(agentId, 'the task')
    const { payment, correlation_id } = await peer.challenged({ body })
    const answer = await peer.paidRequest(payment, { correlation_id, body })
    expect(seller.runs).toMatchObject([{ input: 'the task' }])
    expect(told(answer)).toBe('{"output":"re: the task"}')
    expect(told(await peer.askResult(payment))).toBe('re: the task')
    const free = await peer.request({ resource: 'free', body: wrapped('free', 'another') })
    expect(told(free)).toBe('{"output":"re: another"}')
  })

  test('has a result as it is that fits into no message once it is wrapped: it is paid for', async () => {
    const seller = await startSeller()
    const longest = '"'.repeat(4 * 1024 * 1024)
    seller.work = async () => longest
    const peer = await seller.connect()
    const body = wrapped(agentId, 'the task')
    const { payment, correlation_id } = await peer.challenged({ body })
    expect(told(await peer.paidRequest(payment, { correlation_id, body })) === longest).toBe(true)
    const free = await peer.request({ resource: 'free', body: wrapped('free', 'another') })
    expect(told(free) === longest).toBe(true)
  })

  test('that has gone before its result is there has it when it asks anew, and is not charged again (D32)', async () => {
    const seller = await startSeller()
    const gate = Promise.withResolvers<string>()
    seller.work = () => gate.promise
    const body = wrapped(agentId, 'slow')
    await paidAndGone(seller, body)
    const again = await seller.connect()
    const other = await (await seller.connect()).request({ body: wrapped(agentId, 'another') })
    const stranger = await (await seller.connect('stranger')).request({ body })
    expect([told(other), told(stranger)]).toEqual(['x402.payment_required', 'x402.payment_required'])
    const asked = again.request({ body })
    gate.resolve('at last')
    expect(told(await asked)).toBe('{"output":"at last"}')
    expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([1, 1])
    expect(told(await again.request({ body }))).toBe('x402.payment_required')
  })

  test('that asks anew when all is over has it too, once (D32)', async () => {
    const seller = await startSeller()
    const gate = Promise.withResolvers<string>()
    seller.work = () => gate.promise
    const body = wrapped(agentId, 'slow')
    await paidAndGone(seller, body)
    gate.resolve('at last')
    const sought = { peerId: 'buyer', agentId, task: 'slow' }
    await until(() => seller.deps.deferred.findUnheard(sought))
    expect(told(await (await seller.connect('stranger')).request({ body }))).toBe('x402.payment_required')
    const again = await seller.connect()
    expect(told(await again.request({ body }))).toBe('{"output":"at last"}')
    expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([1, 1])
    await until(async () => (await seller.deps.deferred.findUnheard(sought)) === undefined)
    expect(told(await again.request({ body }))).toBe('x402.payment_required')
  })

  test('whose payment was settled before its run, which failed, has it run again, and is not charged again (D45)', async () => {
    const seller = await startSeller({ settleFirst: true })
    seller.work = async () => {
      throw new AgentError('AGENT_FAILED', 'broke')
    }
    const body = wrapped(agentId, 'slow')
    const peer = await seller.connect()
    const { payment, correlation_id } = await peer.challenged({ body })
    expect(told(await peer.paidRequest(payment, { correlation_id, body }))).toBe('EXECUTION_FAILED')
    expect(told(await peer.request({ body }))).toBe('EXECUTION_FAILED')
    seller.work = async () => 'at last'
    expect(told(await peer.request({ body }))).toBe('{"output":"at last"}')
    expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([3, 1])
    await until(
      async () => (await seller.deps.deferred.findUnheard({ peerId: 'buyer', agentId, task: 'slow' })) === undefined,
    )
    expect(told(await peer.request({ body }))).toBe('x402.payment_required')
  })

  /** Pays, and ends its side while the agent runs: the original node does so after half a minute. */
  async function paidAndGone(seller: TestSeller, body: string): Promise<void> {
    const peer = await seller.connect()
    const { payment, correlation_id } = await peer.challenged({ body })
    await peer.send('x402.paid_request', peer.message({ payment, correlation_id, body }))
    await until(() => seller.runs.length === 1)
    await peer.stream.close()
  }

  test.each([
    ['names another agent', { resource: 'elsewhere', input: 'x' }],
    ['has more fields', { resource: 'free', input: 'x', more: 1 }],
    ['has an input that is no text', { resource: 'free', input: 1 }],
    ['has no input', { resource: 'free' }],
  ])('is told from one whose task is JSON that %s', async (_what, task) => {
    const seller = await startSeller()
    const peer = await seller.connect()
    const text = JSON.stringify(task)
    const answer = await peer.request({ resource: 'free', body: Buffer.from(text).toString('base64') })
    expect(seller.runs).toMatchObject([{ input: text }])
    expect(told(answer)).toBe(`re: ${text}`)
  })
})
