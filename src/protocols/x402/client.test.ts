import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { agentId, randomHex, requirements, signed } from '../../../test/support/payments.ts'
import { ScriptedSeller } from '../../../test/support/scripted-seller.ts'
import { exchange } from '../../buying/purchase.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import { encodeTextFrame } from '../frame.ts'
import { FramedStream, type FramedStreamOptions } from '../framed-stream.ts'
import { askX402Result, callX402Preemptively, type PaymentDemand } from './client.ts'

const open = new AbortController().signal
const now = Date.UTC(2026, 0, 1)

/** The client, with what it signed. The same authorization is given for every challenge, as the buyer's guard does. */
function client(seller: ScriptedSeller, options: FramedStreamOptions = {}) {
  const call = { correlationId: randomUUID(), resource: agentId, task: 'task', callerDid: 'did:buyer' }
  const signatures: PaymentEnvelope[] = []
  const asked: unknown[] = []
  let envelope: PaymentEnvelope | undefined
  const stream = async () => new FramedStream(await seller.open(), options)
  const lease = async () => {
    let last = await stream()
    return {
      async current() {
        if (!last.writable || last.ended) last = await stream()
        return last
      },
    }
  }
  const sign = async ({ requirements: what, nonce: serverNonce }: PaymentDemand) => {
    asked.push(what)
    envelope ??= signed(now, { serverNonce }).envelope
    signatures.push(envelope)
    return { ...envelope, server_nonce: serverNonce }
  }
  return {
    call,
    asked,
    signatures,
    run: async (signal = open) => exchange(await lease(), call, { sign }, signal),
    stream,
    lease,
  }
}
const bodyOf = ({ body }: { body: string }) => Buffer.from(body, 'base64').toString()

test('asks, pays what the seller names under its nonce, and takes the response', async () => {
  const nonce = randomHex()
  const seller = new ScriptedSeller(async (stream) => {
    await stream.challenge(await stream.next(), { challenge_nonce: nonce })
    await stream.respond(await stream.next())
  })
  const { run, call, asked } = client(seller)
  expect(bodyOf(await run())).toBe('result')
  expect(asked).toEqual([requirements()])
  const [request, paid] = seller.received
  expect(request).toMatchObject({
    type: 'x402.request',
    message: {
      correlation_id: call.correlationId,
      resource: agentId,
      method: 'execute',
      payment: null,
      body: 'dGFzaw==',
    },
  })
  expect(paid).toMatchObject({
    type: 'x402.paid_request',
    message: {
      correlation_id: call.correlationId,
      body: 'dGFzaw==',
      payment: { server_nonce: nonce },
    },
  })
})

test('a free answer is taken without paying', async () => {
  const seller = new ScriptedSeller(async (stream) => stream.respond(await stream.next()))
  const { run, signatures } = client(seller)
  expect(bodyOf(await run())).toBe('result')
  expect(signatures).toEqual([])
})

describe('D23: a seller that ends its stream', () => {
  test('after the challenge gets the payment on another one', async () => {
    const seller = new ScriptedSeller(async (stream) => {
      if (stream.index === 0) {
        await stream.challenge(await stream.next())
        await stream.raw.close()
      } else await stream.respond(await stream.next())
    })
    const { run, signatures } = client(seller)
    expect(bodyOf(await run())).toBe('result')
    expect([seller.opened, signatures.length]).toEqual([2, 1])
    expect(seller.received.map(({ type }) => type)).toEqual(['x402.request', 'x402.paid_request'])
  })

  test('just as the payment is on its way gets the same payment again', async () => {
    const seller = new ScriptedSeller(async (stream) => {
      if (stream.index === 0) {
        await stream.challenge(await stream.next())
        await stream.next()
        await stream.raw.close()
      } else await stream.respond(await stream.next())
    })
    const { run, signatures } = client(seller)
    expect(bodyOf(await run())).toBe('result')
    expect(signatures).toHaveLength(1)
    const [, first, second] = seller.received
    expect(second).toEqual(first)
  })

  test('every time is given up after the second', async () => {
    const seller = new ScriptedSeller(async (stream) => {
      if (stream.index === 0) await stream.challenge(await stream.next())
      await stream.next()
      await stream.raw.close()
    })
    await expect(client(seller).run()).rejects.toMatchObject({ name: 'StreamEnded' })
    expect(seller.received.filter(({ type }) => type === 'x402.paid_request')).toHaveLength(2)
  })

  test('T23: inside its answer has said nothing: the answer is to be asked for', async () => {
    const seller = new ScriptedSeller(async (stream) => {
      const message = await stream.next()
      if (message?.type === 'x402.request')
        return stream
          .challenge(message)
          .then(() => stream.next())
          .then(() => cut(stream.raw))
      return cut(stream.raw)
    })
    const cut = async (raw: { send(bytes: Uint8Array): unknown; close(): Promise<void> }) => {
      raw.send(encodeTextFrame('x402.response', '{"version":"1.0"').subarray(0, 25))
      await raw.close()
    }
    await expect(client(seller).run()).rejects.toMatchObject({ name: 'StreamEnded' })
  })
})

test('T23: an answer that stalls inside a frame has said nothing', async () => {
  const seller = new ScriptedSeller(async (stream) => {
    const message = await stream.next()
    if (message?.type === 'x402.request' && message.message.method === 'execute') {
      await stream.challenge(message)
      await stream.next()
    }
    stream.raw.send(encodeTextFrame('x402.response', '{"version":"1.0"').subarray(0, 25))
  })
  const { run } = client(seller, { frameTimeoutMs: 20 })
  await expect(run()).rejects.toMatchObject({ name: 'StreamEnded' })
})

describe('2003: an expired challenge', () => {
  test('is replaced by a new one, paid with the same authorization', async () => {
    const seller = new ScriptedSeller(async (stream) => {
      await stream.challenge(await stream.next(), { challenge_nonce: `0x${'a'.repeat(64)}` })
      await stream.refuse(await stream.next(), 'PAYMENT_NONCE_EXPIRED', { error_code: 2003, retryable: true })
      await stream.challenge(await stream.next(), { challenge_nonce: `0x${'b'.repeat(64)}` })
      await stream.respond(await stream.next())
    })
    const { run } = client(seller)
    expect(bodyOf(await run())).toBe('result')
    const paid = seller.received.flatMap(({ type, message }) => (type === 'x402.paid_request' ? [message.payment] : []))
    expect(paid.map(({ server_nonce }) => server_nonce)).toEqual([`0x${'a'.repeat(64)}`, `0x${'b'.repeat(64)}`])
    expect(paid[1]!.payload).toEqual(paid[0]!.payload)
  })

  test('is asked for three times at most', async () => {
    const seller = new ScriptedSeller(async (stream) => {
      for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
        if (message.type === 'x402.request') await stream.challenge(message)
        else await stream.refuse(message, 'PAYMENT_NONCE_EXPIRED', { error_code: 2003, retryable: true })
      }
    })
    await expect(client(seller).run()).rejects.toMatchObject({ code: 'PAYMENT_NONCE_EXPIRED' })
    expect(seller.received).toHaveLength(6)
  })

  test('on a stream that the seller has ended is replaced on another', async () => {
    const seller = new ScriptedSeller(async (stream) => {
      await stream.challenge(await stream.next())
      const paid = await stream.next()
      if (stream.index > 0) return stream.respond(paid)
      await stream.refuse(paid, 'PAYMENT_NONCE_EXPIRED', { error_code: 2003, retryable: true })
      await stream.raw.close()
    })
    expect(bodyOf(await client(seller).run())).toBe('result')
  })
})

test('T2: a second demand for payment is refused, and nothing is signed for it', async () => {
  const seller = new ScriptedSeller(async (stream) => {
    await stream.challenge(await stream.next())
    await stream.challenge(await stream.next())
  })
  const { run, signatures } = client(seller)
  await expect(run()).rejects.toMatchObject({ code: 'PAYMENT_REQUIRED', retryable: false })
  expect(signatures).toHaveLength(1)
})

test('what the stream still carries of an exchange before is passed over', async () => {
  const seller = new ScriptedSeller(async (stream) => {
    const request = await stream.next()
    const stale = { correlation_id: randomUUID() }
    await stream.respond(request, { ...stale, body: Buffer.from('stale').toString('base64') })
    await stream.refuse(request, 'EXECUTION_FAILED', stale)
    await stream.challenge(request, stale)
    await stream.challenge(request)
    const paid = await stream.next()
    await stream.respond(paid, stale)
    await stream.respond(paid)
  })
  expect(bodyOf(await client(seller).run())).toBe('result')
})

describe('an error', () => {
  test('of this exchange is thrown as the seller sends it, with the correlation id', async () => {
    const seller = new ScriptedSeller(async (stream) =>
      stream.refuse(await stream.next(), 'UNKNOWN_RESOURCE', { message: 'gone', retryable: false }),
    )
    const { run, call } = client(seller)
    await expect(run()).rejects.toMatchObject({
      name: 'PeerError',
      code: 'UNKNOWN_RESOURCE',
      message: 'gone',
      correlationId: call.correlationId,
    })
  })
  test('that names no exchange is ours', async () => {
    const seller = new ScriptedSeller(async (stream) => {
      await stream.next()
      await stream.refuse(undefined, 'OVERLOADED', {
        correlation_id: '00000000-0000-4000-8000-000000000000',
        retryable: true,
      })
    })
    await expect(client(seller).run()).rejects.toMatchObject({ code: 'OVERLOADED', retryable: true })
  })
})

test.each([
  ['a message that only clients send', 'x402.request'],
  ['a type nobody knows', 'x402.refund'],
])('a seller that answers with %s fails the call', async (_what, type) => {
  const seller = new ScriptedSeller(async (stream) => {
    const request = await stream.next()
    await stream.send(type, { ...request!.message })
  })
  await expect(client(seller).run()).rejects.toMatchObject({ code: 'INVALID_MESSAGE' })
})

test('a seller that says nothing is waited for as long as the caller wants, and no longer', async () => {
  const caller = new AbortController()
  const seller = new ScriptedSeller(async (stream) => {
    await stream.next()
    caller.abort(new DOMException('the time is over', 'TimeoutError'))
  })
  await expect(client(seller).run(caller.signal)).rejects.toMatchObject({ name: 'TimeoutError' })
})

test('a payment is sent again preemptively, and its result asked for, with the same authorization', async () => {
  const seller = new ScriptedSeller(async (stream) => stream.respond(await stream.next()))
  const { call, stream } = client(seller)
  const { envelope } = signed(now, { serverNonce: `0x${'d'.repeat(64)}` })
  await callX402Preemptively(await stream(), call, envelope, open)
  await askX402Result(await stream(), call, envelope, open)
  expect(seller.received.map(({ message }) => message)).toMatchObject([
    { method: 'execute', body: 'dGFzaw==', payment: { ...envelope, server_nonce: 'preemptive' } },
    { method: 'result', body: '', payment: envelope },
  ])
})

describe('output before the response', () => {
  /** A seller that sends so many pieces of output before it responds. */
  const showing = (pieces: number, text: string) =>
    new ScriptedSeller(async (stream) => {
      await stream.challenge(await stream.next())
      const paid = await stream.next()
      const header = { version: '1.0', correlation_id: paid?.message.correlation_id }
      for (let n = 0; n < pieces; n++) await stream.send('x402.output', { ...header, text })
      await stream.respond(paid)
    })

  test('is asked for, told, and changes nothing of the response', async () => {
    const seller = showing(3, 'part ')
    const { lease, call } = client(seller)
    const shown: string[] = []
    const streaming = { ...call, onOutput: (text: string) => shown.push(text) }
    const sign = async ({ nonce }: PaymentDemand) => signed(now, { serverNonce: nonce }).envelope
    expect(bodyOf(await exchange(await lease(), streaming, { sign }, open))).toBe('result')
    expect(shown).toEqual(['part ', 'part ', 'part '])
    expect(seller.received.map(({ message }) => (message as { stream?: unknown }).stream)).toEqual([true, true])
  })

  test('a seller that sends it unasked has sent what is no answer', async () => {
    const { run } = client(showing(1, 'part'))
    await expect(run()).rejects.toThrow(expect.objectContaining({ code: 'INVALID_MESSAGE' }))
  })

  test('T7 T10 a seller that sends pieces without end is cut off, and may be asked for the result', async () => {
    const { lease, call } = client(showing(400, 'x'.repeat(60_000)))
    let shown = 0
    const onOutput = (piece: string) => {
      shown += piece.length
    }
    const sign = async ({ nonce }: PaymentDemand) => signed(now, { serverNonce: nonce }).envelope
    const called = exchange(await lease(), { ...call, onOutput }, { sign }, open)
    await expect(called).rejects.toThrow(/more output than a result may hold/)
    expect(shown).toBeLessThanOrEqual(16 * 1024 * 1024)
  })
})

describe('a seller of the original node', () => {
  const bare = 'ab'.repeat(32)
  const outputOf = (text: string) => ({
    body: Buffer.from(JSON.stringify({ output: text })).toString('base64'),
    payment_id: '',
    seller_token_id: undefined,
  })
  const bodyReceived = (seller: ScriptedSeller, at: number) =>
    Buffer.from((seller.received.at(at)!.message as { body: string }).body, 'base64').toString()

  test('gets its nonce back as it spelled it, and a wrapped body; its answer is unwrapped', async () => {
    const seller = new ScriptedSeller(async (stream) => {
      await stream.challenge(await stream.next(), { challenge_nonce: bare })
      // As the wire has it: the schema of a strict reader refuses a nonce without 0x.
      const frame = await stream.nextFrame()
      const paid = JSON.parse(Buffer.from(frame!.data).toString())
      expect(paid.payment.server_nonce).toBe(bare)
      expect(JSON.parse(Buffer.from(paid.body, 'base64').toString())).toEqual({ resource: agentId, input: 'task' })
      await stream.respond({ message: paid } as never, outputOf('the result'))
    })
    const { run, signatures } = client(seller)
    expect(bodyOf(await run())).toBe('the result')
    expect(signatures).toHaveLength(1)
  })

  test('that asks for the resource in the body gets the same payment again, wrapped and without a challenge', async () => {
    const seller = new ScriptedSeller(async (stream) => {
      await stream.challenge(await stream.next())
      await stream.refuse(await stream.next(), 'INVALID_MESSAGE', {
        error_code: 1000,
        message: 'missing resource in body',
      })
      await stream.respond(await stream.next(), outputOf('at last'))
    })
    const { run, signatures } = client(seller)
    expect(bodyOf(await run())).toBe('at last')
    expect(signatures).toHaveLength(1)
    expect(seller.received.at(-1)).toMatchObject({
      type: 'x402.request',
      message: { payment: { server_nonce: 'preemptive', payload: signatures[0]!.payload } },
    })
    expect(JSON.parse(bodyReceived(seller, -1))).toEqual({ resource: agentId, input: 'task' })
  })

  test('is sent nothing to sign for where the task fits into no message once it is wrapped', async () => {
    const seller = new ScriptedSeller(async (stream) => {
      await stream.challenge(await stream.next(), { challenge_nonce: bare })
    })
    const { run, call, signatures } = client(seller)
    call.task = '"'.repeat(4 * 1024 * 1024)
    await expect(run()).rejects.toThrow(/too long for one message/)
    expect(signatures).toEqual([])
  })

  test('is asked for a result with the whole task: it takes any payment for a new one', async () => {
    const seller = new ScriptedSeller(async (stream) => stream.respond(await stream.next(), outputOf('again')))
    const { call, stream } = client(seller)
    const { envelope } = signed(now, { serverNonce: `0x${'d'.repeat(64)}` })
    const asking = { ...call, form: { wrapped: true } }
    expect(bodyOf(await askX402Result(await stream(), asking, envelope, open))).toBe('again')
    expect(JSON.parse(bodyReceived(seller, -1))).toEqual({ resource: agentId, input: 'task' })
  })

  test('that sends an error without a correlation id has refused this call', async () => {
    const seller = new ScriptedSeller(async (stream) => {
      await stream.next()
      await stream.refuse(undefined, 'INVALID_MESSAGE', { correlation_id: '', message: 'unknown message type' })
    })
    await expect(client(seller).run()).rejects.toMatchObject({
      code: 'INVALID_MESSAGE',
      message: 'unknown message type',
    })
  })
})
