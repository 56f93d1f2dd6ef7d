import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { signed } from '../../test/support/payments.ts'
import { startSeller } from '../../test/support/started-seller.ts'
import { until } from '../../test/support/until.ts'
import { type TestSeller, told } from '../../test/support/x402-seller.ts'
import { AgentError } from '../agents/runtime.ts'
import { DATA_BYTES_MAX, encodeFrame } from './frame.ts'
import { callMarketplace } from './marketplace.ts'

const MiB = 1024 * 1024

describe('D36: a peer', () => {
  test('that opens too many streams is told to try again, on both protocols, and others are served', async () => {
    const seller = await startSeller({ limits: { streamsMax: 2 } })
    const held = [await seller.connect(), await seller.connect()]
    const third = await seller.connect()
    const answer = await third.next()
    expect(answer?.message).toMatchObject({ error_name: 'OVERLOADED', error_code: 3001, retryable: true })
    const free = callMarketplace(
      await seller.openMarketplace(),
      { agentId: 'free', input: 'x', correlationId: '' },
      AbortSignal.timeout(5000),
    )
    await expect(free).rejects.toMatchObject({ code: 'OVERLOADED', retryable: true })
    expect(told(await (await seller.connect('other')).request({ resource: 'free' }))).toBe('re: task')
    await held[0]!.raw.close()
    await until(() => held[0]!.raw.status === 'closed')
    expect(told(await (await seller.connect()).request({ resource: 'free' }))).toBe('re: task')
  })

  test('gets its place back however its streams end', async () => {
    const seller = await startSeller({ limits: { streamsMax: 1 } })
    const ends: ((peer: Awaited<ReturnType<TestSeller['connect']>>) => void)[] = [
      ({ raw }) => void raw.close(),
      ({ raw }) => raw.abort(new Error('gone')),
      ({ raw }) => {
        raw.send(Uint8Array.of(0, 0))
        void raw.close()
      },
    ]
    for (const end of ends) {
      const peer = await until(async () => {
        const candidate = await seller.connect()
        return told(await candidate.request({ resource: 'free' })) === 're: task' ? candidate : undefined
      })
      end(peer)
    }
  })

  test('cannot hold more of this node’s memory than its share, and gets it back (T7)', async () => {
    const seller = await startSeller({ limits: { bytesHeldMax: 3 * MiB } })
    const large = encodeFrame({ type: 'x402.request', data: Buffer.alloc(2 * MiB) }).subarray(0, MiB)
    const peers = await Promise.all(Array.from({ length: 5 }, () => seller.connect()))
    for (const { raw } of peers) raw.send(large)
    await until(() => peers.filter(({ raw }) => raw.status !== 'open').length === 2)
    for (const { raw } of peers) raw.abort(new Error('gone'))
    await until(() => {
      const isFree = seller.limits.holdBytes('buyer', 3 * MiB)
      seller.limits.holdBytes('buyer', -3 * MiB)
      return isFree
    })
    const again = await Promise.all(Array.from({ length: 3 }, () => seller.connect()))
    for (const { raw } of again) raw.send(large)
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve))
    expect(again.map(({ raw }) => raw.status)).toEqual(['open', 'open', 'open'])
  })

  test('leaves nothing booked by streams that end half-read (T7)', async () => {
    const seller = await startSeller({ limits: { bytesHeldMax: 4 * MiB, bytesHeldTotalMax: 4 * MiB } })
    const half = encodeFrame({ type: 'execute', data: Buffer.alloc(2 * MiB, ' ') }).subarray(0, MiB)
    const request = encodeFrame({ type: 'execute', data: Buffer.from('{"agent_id":"free","input":"x"}') })
    for (let round = 0; round < 8; round++) {
      const stream = await seller.openMarketplace(`peer ${round}`)
      stream.send(Buffer.concat([request, request, half]))
      await stream.close()
      await until(() => stream.status !== 'open')
    }
    const peer = await seller.connect('honest')
    const { envelope } = signed(seller.clock.now())
    const body = Buffer.alloc(2 * MiB, 'a').toString('base64')
    expect((await peer.request({ payment: envelope, body }))?.type).toBe('x402.response')
  })
})

test('T7: a large announcement followed by nothing costs nothing', async () => {
  const seller = await startSeller({ limits: { bytesHeldMax: 1000 } })
  const peers = await Promise.all(Array.from({ length: 20 }, () => seller.connect()))
  const header = encodeFrame({ type: 'x402.request', data: Buffer.alloc(DATA_BYTES_MAX) }).subarray(0, 18)
  for (const { raw } of peers) raw.send(header)
  expect(told(await (await seller.connect()).request({ resource: 'free' }))).toBe('re: task')
})

describe('stopping', () => {
  test('lets a run end by itself, with its answer', async () => {
    const seller = await startSeller()
    const gate = Promise.withResolvers<string>()
    seller.work = () => gate.promise
    const buying = (await seller.connect()).buy()
    await until(() => seller.runs.length === 1)
    const stopped = seller.stop()
    gate.resolve('just in time')
    expect(told((await buying).answer)).toBe('just in time')
    await stopped
  })

  test('ends a run that does not, within 3 s, and nobody is charged', async () => {
    const seller = await startSeller()
    seller.work = ({ signal }) =>
      new Promise((_, reject) =>
        signal.addEventListener('abort', () => reject(new AgentError('AGENT_CANCELLED', 'stopped'))),
      )
    const peer = await seller.connect()
    const { payment, paymentId, correlation_id } = await peer.challenged()
    peer.paidRequest(payment, { correlation_id }).catch(() => {})
    await until(() => seller.runs.length === 1)
    const began = performance.now()
    await seller.stop()
    expect(performance.now() - began).toBeLessThan(10_000)
    expect((await seller.payments.get(paymentId))?.state).toBe('voided')
    expect(seller.settlement.attempts).toEqual([])
  })

  test('answers new streams while runs end: their buyers go on to another process', async () => {
    const seller = await startSeller()
    const gate = Promise.withResolvers<string>()
    seller.work = () => gate.promise
    const buying = (await seller.connect()).buy()
    await until(() => seller.runs.length === 1)
    const stopped = seller.stop()
    expect(told(await (await seller.connect()).request())).toBe('OVERLOADED')
    expect(told(await (await seller.connect()).request({ resource: 'free' }))).toBe('OVERLOADED')
    const free = { agentId: 'free', input: 'x', correlationId: randomUUID() }
    const call = callMarketplace(await seller.openMarketplace(), free, AbortSignal.timeout(5_000))
    await expect(call).rejects.toMatchObject({ code: 'OVERLOADED' })
    gate.resolve('just in time')
    expect(told((await buying).answer)).toBe('just in time')
    await stopped
  })

  test('takes no further streams, and says so', async () => {
    const seller = await startSeller()
    await seller.stop()
    const peer = await seller.connect()
    expect(told(await peer.next())).toBe('OVERLOADED')
    await until(() => peer.raw.status !== 'open')
  })
})
