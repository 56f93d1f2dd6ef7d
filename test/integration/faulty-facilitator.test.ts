import type { Hex } from 'viem'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { type Fault, type FaultyFacilitator, startFaultyFacilitator } from '../support/faulty-facilitator.ts'
import { postJson, type SignedPayment, signPayment } from '../support/signed-payment.ts'
import { until } from '../support/until.ts'

/*
 * The stand-in that other tests rely on: each fault is what it says, over real HTTP, and moves money only when it says so.
 */

const OTHER_HASH = `0x${'ee'.repeat(32)}`
let devnet: Devnet
let facilitator: FaultyFacilitator
let payment: SignedPayment

beforeAll(async () => {
  devnet = await startDevnet()
  facilitator = await startFaultyFacilitator(devnet.facilitatorUrl)
})
afterAll(async () => {
  await facilitator.stop()
  await devnet.stop()
})
beforeEach(async () => {
  payment = await signPayment({
    payerKey: devnet.wallets.buyer.privateKey,
    payTo: devnet.wallets.seller.address,
    amount: 10n,
  })
})

const settle = () => postJson(`${facilitator.url}/settle`, payment.body)
const settleRaw = (signal?: AbortSignal) =>
  fetch(`${facilitator.url}/settle`, {
    method: 'POST',
    body: JSON.stringify(payment.body),
    headers: { 'content-type': 'application/json' },
    signal: signal ?? null,
  })
const isSettled = () => devnet.chain.authorizationState(payment.from, payment.nonce)

describe('the faulty facilitator', () => {
  it('passes calls through when nothing is to fail, and writes them down', async () => {
    const before = facilitator.settles().length
    expect(await (await fetch(`${facilitator.url}/supported`)).json()).toMatchObject({ extensions: [] })
    expect((await postJson(`${facilitator.url}/verify`, payment.body)).body).toMatchObject({ isValid: true })
    expect((await settle()).body).toMatchObject({ success: true })
    expect(await isSettled()).toBe(true)
    const calls = facilitator.settles().slice(before)
    expect(calls).toMatchObject([{ fault: 'pass', upstream: { status: 200, body: { success: true } } }])
    expect(calls[0]?.body.paymentPayload?.payload?.authorization?.nonce).toBe(payment.nonce)
  })

  const answers: [string, Fault, { status: number; body: object }][] = [
    ['a refusal', { kind: 'refuse', reason: 'x' }, { status: 200, body: { success: false, errorReason: 'x' } }],
    ['a status', { kind: 'status', status: 503, body: { error: 'down' } }, { status: 503, body: { error: 'down' } }],
    ['wrong types', { kind: 'wrong-types' }, { status: 200, body: { success: 'yes', transaction: 7 } }],
    [
      'settlement_pending',
      { kind: 'pending' },
      {
        status: 200,
        body: { success: false, errorReason: 'settlement_pending', transaction: expect.stringMatching(/^0x/) },
      },
    ],
    ['success without a hash', { kind: 'empty-hash' }, { status: 200, body: { success: true, transaction: '' } }],
    [
      "another's hash",
      { kind: 'other-hash', transaction: OTHER_HASH },
      { status: 200, body: { success: true, transaction: OTHER_HASH } },
    ],
  ]
  it.each(answers)('answers %s and leaves the money where it is', async (_, fault, answer) => {
    facilitator.faults.push(fault)
    expect(await settle()).toMatchObject(answer)
    expect(await isSettled()).toBe(false)
    expect((await settle()).body).toMatchObject({ success: true })
  })

  it.each(answers)('answers %s after the money has moved, when told so', async (_, fault, answer) => {
    facilitator.faults.push({ ...fault, settles: true })
    expect(await settle()).toMatchObject(answer)
    expect(await isSettled()).toBe(true)
  })

  it('answers settlement_pending with the real hash when it settles', async () => {
    facilitator.faults.push({ kind: 'pending', settles: true })
    const { transaction } = (await settle()).body
    expect((await devnet.chain.client.getTransactionReceipt({ hash: transaction as Hex })).status).toBe('success')
  })

  it('answers text that is no JSON, and nothing at all', async () => {
    facilitator.faults.push({ kind: 'garbage' }, { kind: 'empty' })
    const garbage = await settleRaw()
    expect(garbage.status).toBe(200)
    await expect(garbage.json()).rejects.toThrow(SyntaxError)
    expect(await (await settleRaw()).text()).toBe('')
  })

  it('drops the connection before and after the money has moved, and in the middle of an answer', async () => {
    facilitator.faults.push({ kind: 'drop' })
    await expect(settleRaw()).rejects.toThrow()
    expect(await isSettled()).toBe(false)
    facilitator.faults.push({ kind: 'truncated' })
    await expect(settleRaw().then((response) => response.text())).rejects.toThrow()
    expect(await isSettled()).toBe(true)
    facilitator.faults.push({ kind: 'drop', settles: true })
    await expect(settleRaw()).rejects.toThrow()
    expect(facilitator.calls.at(-1)?.upstream?.body).toMatchObject({ success: false })
  })

  it('holds a call until it is released', async () => {
    facilitator.faults.push({ kind: 'hold' })
    const before = facilitator.calls.length
    const held = settleRaw()
    held.catch(() => {})
    await until(() => facilitator.calls.length > before)
    facilitator.release()
    await expect(held).rejects.toThrow()
    expect(await isSettled()).toBe(false)
  })

  it('answers without end', async () => {
    facilitator.faults.push({ kind: 'endless' })
    const stop = new AbortController()
    const response = await settleRaw(stop.signal)
    let bytes = 0
    await expect(async () => {
      for await (const chunk of response.body ?? []) {
        bytes += chunk.byteLength
        if (bytes > 1_000_000) stop.abort()
      }
    }).rejects.toThrow()
    expect(bytes).toBeGreaterThan(1_000_000)
  })

  it('fails /verify on its own queue', async () => {
    facilitator.verifyFaults.push({ kind: 'status', status: 500, body: {} })
    expect((await postJson(`${facilitator.url}/verify`, payment.body)).status).toBe(500)
    expect((await postJson(`${facilitator.url}/verify`, payment.body)).status).toBe(200)
  })
})
