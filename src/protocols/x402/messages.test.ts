import { streamPair } from '@libp2p/utils'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { channelVectors, vectorConfig } from '../../../test/support/channel-vectors.ts'
import { readVectors } from '../../../test/support/read-vectors.ts'
import { assets } from '../../payments/assets.ts'
import { recoverSigner } from '../../payments/authorization.ts'
import { channelId, depositDigest } from '../../payments/channel-digests.ts'
import { channelCallId } from '../../payments/channels/call-id.ts'
import { addressOfPublicKey } from '../../payments/secp256k1.ts'
import { checkVoucher } from '../../payments/voucher.ts'
import type { Hex } from '../../schema/primitives.ts'
import { type X402MessageType, x402Errors } from '../../schema/x402.ts'
import { encodeTextFrame } from '../frame.ts'
import { FramedStream } from '../framed-stream.ts'
import { PeerError, peerErrorFrom } from '../peer-error.ts'
import { parseMessage, readMessage, writeMessage } from './messages.ts'

type Vectors = {
  errors: { code: number; name: string; retryable: boolean }[]
  valid: { about: string; type: X402MessageType; message: Record<string, unknown>; canonical?: unknown }[]
  invalid: { about: string; type: string; message: unknown; path: string }[]
}
const vectors = readVectors<Vectors>('x402-messages')
const open = new AbortController().signal
const frameOf = (type: string, message: unknown) => ({ type, data: Buffer.from(JSON.stringify(message)) })
const refused = (frame: { type: string; data: Uint8Array }): PeerError => {
  try {
    parseMessage(frame)
  } catch (error) {
    if (error instanceof PeerError) return error
    throw error
  }
  throw new Error('was not refused')
}

test('the error table is that of the vectors, and has no code 2006', () => {
  const table = Object.entries(x402Errors).map(([name, { code, retryable }]) => ({ code, name, retryable }))
  expect(table).toEqual(vectors.errors)
  expect(table.map(({ code }) => Number(code))).not.toContain(2006)
})

test.each(vectors.valid)('$type: $about', async ({ type, message, canonical }) => {
  const parsed = parseMessage(frameOf(type, message))
  const [ours, theirs] = await streamPair({ protocol: '/test' })
  const received = new FramedStream(theirs)
  await writeMessage(new FramedStream(ours), type, parsed.message as never, open)
  const frame = await received.read(open)
  expect(frame?.type).toBe(type)
  expect(JSON.parse(Buffer.from(frame!.data).toString())).toEqual(canonical ?? message)
})

test('the messages of channels hold the terms, the voucher and the deposit of channels.json', () => {
  const payments = vectors.valid.flatMap(({ type, message }) => {
    const parsed = parseMessage(frameOf(type, message))
    return parsed.type === 'x402.request' && parsed.message.payment?.channel ? [parsed.message.payment.channel] : []
  })
  const config = vectorConfig('A', 84532)
  const { accounts, deposits } = channelVectors
  const signed = deposits.find(({ channel, chainId }) => channel === 'A' && chainId === 84532)!
  for (const { voucher } of payments) expect(checkVoucher(config, voucher, 84532)).toMatchObject({ ok: true })
  const [made] = payments.filter(({ deposit }) => deposit !== undefined)
  expect(channelId(made!.config!, 84532)).toBe(signed.channelId)
  const { amount, authorization } = made!.deposit!
  const terms = { channelId: signed.channelId, payer: accounts.payer.address, amount, ...authorization }
  const recovered = recoverSigner(
    depositDigest({ ...terms, salt: authorization.salt as Hex }, assets['eip155:84532']),
    authorization.signature,
  )
  expect(recovered).toMatchObject({ ok: true })
  expect(recovered.ok && addressOfPublicKey(recovered.publicKey)).toBe(accounts.payer.address)
  expect(payments).toHaveLength(2)
  const charged = vectors.valid.find(({ message }) => message.charge !== undefined)!.message
  expect(charged.payment_id).toBe(channelCallId(signed.channelId, String(charged.correlation_id)))
})

test.each(vectors.invalid)('1000: refuses $type with $about', ({ type, message, path }) => {
  const error = refused(frameOf(type, message))
  expect(error).toMatchObject({ code: 'INVALID_MESSAGE', errorCode: 1000, retryable: false })
  expect(error.message).toContain(`${type}: ${path}: `)
})

test('an invalid message is answered under its own correlation id, where it has one', () => {
  const [valid] = vectors.valid
  const { correlation_id } = valid!.message
  expect(refused(frameOf('x402.request', { ...valid!.message, method: 1 })).correlationId).toBe(correlation_id)
  expect(refused(frameOf('x402.request', { correlation_id: 'no uuid' })).correlationId).toBeUndefined()
})

describe('1000: refuses', () => {
  test.each([
    ['a type nobody knows', { type: 'x402.refund', data: Buffer.from('{}') }],
    ['the type of every object', { type: '__proto__', data: Buffer.from('{}') }],
    ['constructor', { type: 'constructor', data: Buffer.from('{}') }],
    ['text that is no JSON', { type: 'x402.request', data: Buffer.from('{') }],
    ['no text', { type: 'x402.request', data: Buffer.alloc(0) }],
    ['bytes that are not UTF-8', { type: 'x402.request', data: Buffer.from([0x22, 0xff, 0x22]) }],
    ['a surrogate in UTF-8', { type: 'x402.request', data: Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]) }],
    ['JSON a million levels deep (T8)', { type: 'x402.request', data: Buffer.from('['.repeat(1_000_000)) }],
    ['a tower of objects (T8)', { type: 'x402.request', data: Buffer.from('{"a":'.repeat(100_000)) }],
    [
      'a closed tower (T8)',
      { type: 'x402.request', data: Buffer.from(`${'['.repeat(200_000)}${']'.repeat(200_000)}`) },
    ],
  ])('%s', (_what, frame) => {
    expect(refused(frame)).toMatchObject({ code: 'INVALID_MESSAGE' })
  })
})

test('1000 names the limit that valid JSON exceeds', () => {
  const because = (text: string) => refused({ type: 'x402.request', data: Buffer.from(text) }).message
  const keys = JSON.stringify(Object.fromEntries(Array.from({ length: 500_000 }, (_, index) => [index, 1])))
  expect(because(keys)).toBe('the data has more than 100000 values')
  expect(because(`${'['.repeat(5_000)}${']'.repeat(5_000)}`)).toBe('the data is nested deeper than 64 levels')
  expect(because(`{${' '.repeat(5_000)}`)).toBe('the data is not JSON in UTF-8')
})

test('T8: prototype keys in a message change nothing', () => {
  const [valid] = vectors.valid
  const text = JSON.stringify(valid!.message).replace(
    '{',
    '{"__proto__":{"admin":true},"constructor":{"prototype":{"x":1}},',
  )
  const { message } = parseMessage({ type: 'x402.request', data: Buffer.from(text) })
  expect(message).not.toHaveProperty('admin')
  expect(({} as Record<string, unknown>).admin).toBeUndefined()
})

test('T8: any JSON value in any field is a message or a refusal, never a crash', () => {
  const field = fc.constantFrom(...vectors.valid.flatMap(({ message }) => Object.keys(message)))
  fc.assert(
    fc.property(fc.constantFrom(...vectors.valid), field, fc.jsonValue(), ({ type, message }, key, value) => {
      try {
        parseMessage(frameOf(type, { ...message, [key]: value }))
      } catch (error) {
        expect(error).toBeInstanceOf(PeerError)
      }
    }),
    { numRuns: 500 },
  )
})

test('T8: any bytes in a frame of any type are refused, never a crash', () => {
  fc.assert(
    fc.property(fc.string(), fc.uint8Array({ maxLength: 200 }), (type, data) => {
      expect(refused({ type, data })).toMatchObject({ code: 'INVALID_MESSAGE' })
    }),
  )
})

test('a broken frame reads as INVALID_MESSAGE, an ended stream as no message', async () => {
  const [peer, theirs] = await streamPair({ protocol: '/test' })
  const received = new FramedStream(theirs)
  peer.send(Uint8Array.of(0, 0))
  await expect(readMessage(received, open)).rejects.toMatchObject({ code: 'INVALID_MESSAGE' })
  const [other, others] = await streamPair({ protocol: '/test' })
  const second = new FramedStream(others)
  other.send(encodeTextFrame('x402.request', JSON.stringify(vectors.valid[0]!.message)))
  await other.close()
  expect((await readMessage(second, open))?.type).toBe('x402.request')
  expect(await readMessage(second, open)).toBeUndefined()
})

describe('an error from the wire', () => {
  test('keeps its name, its reason and its own word on retrying', () => {
    const error = peerErrorFrom({ number: 2007, name: 'SETTLEMENT_FAILED', message: 'never', retryable: false })
    expect(error).toMatchObject({ code: 'SETTLEMENT_FAILED', errorCode: 2007, message: 'never', retryable: false })
  })
  test.each(['TEAPOT', '__proto__', 'toString', ''])('of the unknown name %j counts as EXECUTION_FAILED', (name) => {
    expect(peerErrorFrom({ number: 4711, name, message: 'why', retryable: true })).toMatchObject({
      code: 'EXECUTION_FAILED',
      message: `${name}: why`,
      retryable: true,
    })
  })
  test.each(['nonce expired', 'PAYMENT_INVALID', ''])('is the one of its number under any name: %j', (name) => {
    const error = peerErrorFrom({ number: 2003, name, message: 'why', retryable: true })
    expect(error).toMatchObject({ code: 'PAYMENT_NONCE_EXPIRED', message: 'why', isForeign: false })
  })
  test('is the one of its name under a number of another table', () => {
    const error = peerErrorFrom({ number: -32_000, name: 'OVERLOADED', message: 'why', retryable: true })
    expect(error).toMatchObject({ code: 'OVERLOADED', message: 'why', isForeign: false })
  })
})
