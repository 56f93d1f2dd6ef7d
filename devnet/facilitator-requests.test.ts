import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { postJson, type SignedPayment, signPayment } from '../test/support/signed-payment.ts'
import { startAnvil } from './anvil.ts'
import { type Devnet, startDevnet } from './devnet.ts'
import { startFacilitator } from './facilitator.ts'

let devnet: Devnet
beforeAll(async () => {
  devnet = await startDevnet()
})
afterAll(() => devnet.stop())

const sign = (amount = 10_000n) =>
  signPayment({ payerKey: devnet.wallets.buyer.privateKey, payTo: devnet.wallets.seller.address, amount })

describe('invalid requests', () => {
  const url = (path: string) => `${devnet.facilitatorUrl}${path}`
  const change = async (edit: (body: SignedPayment['body']) => unknown) => {
    const { body } = await sign()
    return edit(structuredClone(body))
  }
  const bad: [string, string, () => Promise<unknown>][] = [
    ['no JSON', 'the body is not JSON', async () => '{"x402Version":'],
    ['an array', 'the body must be', async () => []],
    ['null', 'the body must be', async () => 'null'],
    ['nothing in it', 'paymentPayload', async () => ({ x402Version: 2 })],
    [
      'no authorization',
      'paymentPayload.payload.authorization',
      () => change((body) => ({ ...body, paymentPayload: { ...body.paymentPayload, payload: { signature: '0x00' } } })),
    ],
    [
      'a payload of another kind',
      'paymentPayload.payload.signature',
      () => change((body) => ({ ...body, paymentPayload: { ...body.paymentPayload, payload: { permit2: {} } } })),
    ],
    [
      'another network',
      'settles only eip155:84532',
      () =>
        change((body) => ({ ...body, paymentRequirements: { ...body.paymentRequirements, network: 'eip155:8453' } })),
    ],
    [
      'another scheme',
      'settles only "exact" and "batch-settlement"',
      () => change((body) => ({ ...body, paymentRequirements: { ...body.paymentRequirements, scheme: 'upto' } })),
    ],
    [
      'an amount that is no integer',
      'paymentRequirements.amount',
      () => change((body) => ({ ...body, paymentRequirements: { ...body.paymentRequirements, amount: '1.5' } })),
    ],
    [
      'an address with a wrong checksum',
      'paymentRequirements.payTo',
      () =>
        change((body) => ({
          ...body,
          paymentRequirements: {
            ...body.paymentRequirements,
            payTo: '0x036CbD53842c5426634e7929541eC2318f3dCF7E',
          },
        })),
    ],
    [
      'x402 version 1',
      'paymentPayload.x402Version',
      () => change((body) => ({ ...body, paymentPayload: { ...body.paymentPayload, x402Version: 1 } })),
    ],
  ]
  it.each(bad)('%s: 400 with "%s"', async (_, words, make) => {
    const body = await make()
    const settled = await postJson(url('/settle'), body)
    expect(settled).toMatchObject({ status: 400, body: { success: false, errorReason: 'invalid_payload' } })
    expect(settled.body.error).toContain(words)
    expect(await postJson(url('/verify'), body)).toMatchObject({ status: 400, body: { isValid: false } })
  })

  it('a body over the limit: 413, and the next request is served', async () => {
    expect(await postJson(url('/settle'), { filling: 'x'.repeat(300_000) })).toMatchObject({ status: 413 })
    expect((await postJson(url('/settle'), (await sign(1n)).body)).body).toMatchObject({ success: true })
  })

  it('a body with another content type: 415, so a page cannot post it across origins', async () => {
    const response = await fetch(url('/settle'), {
      method: 'POST',
      body: '{}',
      headers: { 'content-type': 'text/plain' },
    })
    expect(response.status).toBe(415)
  })

  it('another method: 405; another path, even an invalid path: 404', async () => {
    expect((await fetch(url('/settle'))).status).toBe(405)
    expect((await fetch(url('/nothing'))).status).toBe(404)
    expect((await fetch(url('//'))).status).toBe(404)
  })

  it('GET /supported names schemes, network and gas account', async () => {
    expect(await (await fetch(url('/supported'))).json()).toEqual({
      kinds: [
        { x402Version: 2, scheme: 'exact', network: 'eip155:84532' },
        { x402Version: 2, scheme: 'batch-settlement', network: 'eip155:84532' },
      ],
      extensions: [],
      signers: { 'eip155:*': [devnet.facilitator.address] },
    })
  })
})

describe('starting', () => {
  it('refuses a port in use, and a chain without USDC', async () => {
    const port = Number(new URL(devnet.facilitatorUrl).port)
    await expect(startFacilitator({ rpcUrl: devnet.rpcUrl, port })).rejects.toThrow(`port ${port} is in use`)
    const bare = await startAnvil({ chainId: 84532 })
    await expect(startFacilitator({ rpcUrl: bare.rpcUrl })).rejects.toThrow('has no USDC')
    await bare.stop()
  })
})
