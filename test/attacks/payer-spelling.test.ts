import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { PaymentEnvelope } from '../../src/schema/payment.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { type ChainMarket, startChainMarket } from '../support/chain-market.ts'
import { requirements, signed } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { base64, told } from '../support/x402-seller.ts'

/*
 * D49: an address is one account, however it is spelled. The reference facilitator takes no address whose letter case is not
 * that of EIP-55: a seller that hands on the buyer's spelling works for nothing.
 */

const PRICE = 10_000n
let market: ChainMarket
beforeAll(async () => {
  market = await startChainMarket()
})
afterAll(() => market.stop())

const spellings: [string, (address: Hex) => Hex][] = [
  ['capitals', (address) => `0x${address.slice(2).toUpperCase()}`],
  ['the wrong capitals', (address) => `0x${address.slice(2).replace(/[a-f]/gi, swapCase)}`],
  ['small letters', (address) => address.toLowerCase() as Hex],
]

describe('D49: a payer pays, in whatever letters it spells the accounts', () => {
  test.each(spellings)('%s', async (_what, spell) => {
    const seller = await market.seller()
    const wallet = await market.payer()
    const { paymentId, envelope } = signed(seller.clock.now(), {
      wallet,
      requirements: requirements({ payTo: seller.payee }),
    })
    const peer = await seller.connect('attacker')
    expect(told(await peer.request({ payment: spelled(envelope, spell), body: base64('hello') }))).toBe('re: hello')
    await settledOf(seller, paymentId)
    expect(await market.devnet.chain.balanceOf(seller.payee)).toBe(PRICE)

    // The same signature in another spelling is the same payment.
    const again = await seller.connect('attacker')
    expect(told(await again.request({ payment: envelope, body: base64('hello') }))).toBe('PAYMENT_NONCE_USED')

    const honest = market.buyer(seller, await market.payer())
    expect((await honest.execute({ input: 'good day' })).output).toBe('re: good day')
    const { reservation } = honest.ledger()[0]!
    await settledOf(seller, reservation!.paymentId)
    expect(await market.devnet.chain.balanceOf(seller.payee)).toBe(2n * PRICE)
  })
})

function spelled(envelope: PaymentEnvelope, spell: (address: Hex) => Hex): PaymentEnvelope {
  const { authorization, signature } = envelope.payload!
  const { from, to } = authorization
  const other = { ...authorization, from: spell(from), to: spell(to) }
  return { ...envelope, payer: spell(envelope.payer), payload: { signature, authorization: other } }
}

function swapCase(letter: string): string {
  return letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase()
}

async function settledOf(seller: Awaited<ReturnType<ChainMarket['seller']>>, id: Hex): Promise<void> {
  const end = await until(() => {
    const payment = seller.payments.get(id)!
    if (payment.state !== 'owed') return payment
    if (payment.txHash !== undefined || payment.error !== undefined) seller.clock.set(payment.nextAttemptAt!)
    return undefined
  })
  expect(end.state).toBe('settled')
}
