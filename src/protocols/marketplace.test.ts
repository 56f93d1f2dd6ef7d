import { randomUUID } from 'node:crypto'
import type { Stream } from '@libp2p/interface'
import { streamPair } from '@libp2p/utils'
import { describe, expect, test } from 'vitest'
import { agentId } from '../../test/support/payments.ts'
import { startSeller } from '../../test/support/started-seller.ts'
import { until } from '../../test/support/until.ts'
import { AgentError } from '../agents/runtime.ts'
import { DATA_BYTES_MAX, encodeTextFrame } from './frame.ts'
import { callMarketplace } from './marketplace.ts'
import { RawReader } from './raw-reader.ts'

const open = AbortSignal.timeout(20_000)
const call = (input: string, agent = 'free') => ({ agentId: agent, input, correlationId: randomUUID() })

/** Sends one frame of any kind and reads the answer as it comes. */
async function ask(stream: Stream, reader: RawReader, type: string, text: string): Promise<Record<string, unknown>> {
  stream.send(encodeTextFrame(type, text))
  const length = Buffer.from(await reader.read(4, open)).readUInt32BE(0)
  return JSON.parse(Buffer.from(await reader.read(length, open)).toString())
}

test('D35: a free agent is called, and its caller is who the connection proves', async () => {
  const seller = await startSeller()
  const output = await callMarketplace(await seller.openMarketplace('alice'), call('Größe 🎉'), open)
  expect(output).toBe('re: Größe 🎉')
  expect(seller.runs).toEqual([{ input: 'Größe 🎉', callerId: 'did:alice' }])
  expect(await seller.exchanges.history('free', 'did:alice', 5)).toEqual([
    { input: 'Größe 🎉', output: 're: Größe 🎉' },
  ])
})

test('D35: agentId and task are accepted spellings, and calls follow each other on one stream', async () => {
  const seller = await startSeller()
  const stream = await seller.openMarketplace()
  const reader = new RawReader(stream)
  for (const text of ['{"agentId":"free","task":"a"}', '{"agent_id":"free","input":"b","extra":1}']) {
    expect(await ask(stream, reader, 'execute', text)).toEqual({ output: expect.stringMatching(/^re: [ab]$/) })
  }
})

describe('refuses, by the same error table', () => {
  const cases: [string, string, string, string, number][] = [
    ['another type', 'x402.request', '{"agent_id":"free","input":"x"}', 'INVALID_MESSAGE', 1000],
    ['text that is no JSON', 'execute', '{', 'INVALID_MESSAGE', 1000],
    ['null', 'execute', 'null', 'INVALID_MESSAGE', 1000],
    ['no agent', 'execute', '{"input":"x"}', 'INVALID_MESSAGE', 1000],
    ['no input', 'execute', '{"agent_id":"free"}', 'INVALID_MESSAGE', 1000],
    ['input that is no text', 'execute', '{"agent_id":"free","input":7}', 'INVALID_MESSAGE', 1000],
    ['an agent that is not ours (T1)', 'execute', '{"agent_id":"elsewhere","input":"x"}', 'UNKNOWN_RESOURCE', 1001],
    ['the agent of every object', 'execute', '{"agent_id":"__proto__","input":"x"}', 'UNKNOWN_RESOURCE', 1001],
    ['a paid agent', 'execute', `{"agent_id":"${agentId}","input":"x"}`, 'PAYMENT_REQUIRED', 2000],
  ]
  test.each(cases)('%s', async (_what, type, text, name, code) => {
    const seller = await startSeller()
    const stream = await seller.openMarketplace()
    const answer = await ask(stream, new RawReader(stream), type, text)
    expect(answer).toEqual({
      error: { code, name, message: expect.any(String), retryable: name === 'PAYMENT_REQUIRED' },
    })
    expect(seller.runs).toEqual([])
  })

  test('a frame outside the grammar, and ends the stream', async () => {
    const seller = await startSeller()
    const stream = await seller.openMarketplace()
    const reader = new RawReader(stream)
    stream.send(Uint8Array.of(0, 0))
    const length = Buffer.from(await reader.read(4, open)).readUInt32BE(0)
    expect(JSON.parse(Buffer.from(await reader.read(length, open)).toString())).toMatchObject({ error: { code: 1000 } })
    await expect(reader.read(1, open)).rejects.toThrow()
  })

  test('an agent’s failure, in words for buyers only', async () => {
    const seller = await startSeller()
    seller.work = () => Promise.reject(new AgentError('AGENT_FAILED', 'no model'))
    await expect(callMarketplace(await seller.openMarketplace(), call('x'), open)).rejects.toMatchObject({
      code: 'EXECUTION_FAILED',
      message: 'no model',
      retryable: false,
    })
    seller.work = () => Promise.reject(new Error('sk-secret'))
    await expect(callMarketplace(await seller.openMarketplace(), call('x'), open)).rejects.toMatchObject({
      message: 'the agent failed',
    })
  })

  test('a result that would not fit the answer, though its text is within the agent’s limit', async () => {
    const seller = await startSeller()
    seller.work = async () => '\u0001'.repeat(2 * 1024 * 1024)
    await expect(callMarketplace(await seller.openMarketplace(), call('x'), open)).rejects.toMatchObject({
      code: 'EXECUTION_FAILED',
      message: 'the result is too large to be sent',
    })
  })
})

test('a caller that goes takes its task with it', async () => {
  const seller = await startSeller()
  let canceled = false
  seller.work = ({ signal }) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => {
        canceled = true
        reject(new AgentError('AGENT_CANCELLED', 'cancelled'))
      })
    })
  const stream = await seller.openMarketplace()
  const controller = new AbortController()
  const called = callMarketplace(stream, call('x'), controller.signal)
  await until(() => seller.runs.length === 1)
  controller.abort(new Error('enough'))
  await expect(called).rejects.toThrow('enough')
  stream.abort(new Error('enough'))
  await until(() => canceled)
})

describe('a seller of bad will', () => {
  async function answering(bytes: Uint8Array): Promise<Stream> {
    const [ours, theirs] = await streamPair({ protocol: '/test' })
    theirs.addEventListener('message', () => {
      if (theirs.writeStatus !== 'writable') return
      theirs.send(bytes)
      void theirs.close()
    })
    return ours
  }
  const framed = (text: string) => {
    const bytes = Buffer.alloc(4 + Buffer.byteLength(text))
    bytes.writeUInt32BE(Buffer.byteLength(text))
    bytes.write(text, 4)
    return bytes
  }
  test.each([
    ['announces more than a frame may hold', Buffer.from([0xff, 0xff, 0xff, 0xff]), { code: 'INVALID_MESSAGE' }],
    ['answers with no JSON', framed('<html>'), { code: 'INVALID_MESSAGE' }],
    ['answers with nothing', framed(''), { code: 'INVALID_MESSAGE' }],
    ['answers with something else', framed('{"result":"x"}'), { code: 'INVALID_MESSAGE' }],
    ['answers with output that is no text', framed('{"output":{"x":1}}'), { code: 'INVALID_MESSAGE' }],
    [
      'ends inside its answer',
      framed('{"output":"x"}').subarray(0, 9),
      { message: expect.stringContaining('too early') },
    ],
    ['ends without an answer', Buffer.alloc(0), { message: expect.stringContaining('too early') }],
    [
      'names an error nobody knows',
      framed('{"error":{"code":1,"name":"toString","message":"m","retryable":true}}'),
      { code: 'EXECUTION_FAILED', retryable: true },
    ],
  ])('that %s fails the call', async (_what, bytes, error) => {
    await expect(callMarketplace(await answering(bytes), call('x'), open)).rejects.toMatchObject(error)
  })

  test('that sends without end is cut off', async () => {
    const [ours, theirs] = await streamPair({ protocol: '/test' })
    const called = callMarketplace(ours, call('x'), open)
    called.catch(() => {})
    const header = Buffer.alloc(4)
    header.writeUInt32BE(DATA_BYTES_MAX)
    theirs.send(header)
    for (let sent = 0; sent < 12 && theirs.status === 'open'; sent++) {
      theirs.send(Buffer.alloc(1024 * 1024))
      await new Promise((resolve) => setImmediate(resolve))
    }
    await expect(called).rejects.toThrow()
  })
})
