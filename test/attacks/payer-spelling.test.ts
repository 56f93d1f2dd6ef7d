import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { PaymentEnvelope } from '../../src/schema/payment.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { type ChainMarket, startChainMarket } from '../support/chain-market.ts'
import { expectBearable } from '../support/honest-calls.ts'
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

describe('D49 T27: a payer pays, in whatever letters it spells the accounts', () => {
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
    const { reservation } = (await honest.ledger())[0]!
    await settledOf(seller, reservation!.paymentId)
    expect(await market.devnet.chain.balanceOf(seller.payee)).toBe(2n * PRICE)
  })
})

test('D49: payments in every spelling leave an honest buyer’s calls as quick as they were', { retry: 2 }, async () => {
  const seller = await market.seller()
  const [honest, wallet] = [market.buyer(seller, await market.payer(100_000_000n)), await market.payer(100_000_000n)]
  const asked = requirements({ payTo: seller.payee })
  const peer = await seller.connect('attacker')
  const attack = async () => {
    for (let count = 0; count < 9; count++) {
      const [, spell] = spellings[count % spellings.length]!
      const { envelope } = signed(seller.clock.now(), { wallet, requirements: asked })
      const answer = await peer.request({ payment: spelled(envelope, spell), body: base64('hello') })
      expect(told(answer)).toBe('re: hello')
    }
  }
  const call = async () => expect((await honest.execute({ input: 'good day' })).output).toBe('re: good day')
  await expectBearable(call, attack, { calls: 15 })
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
  const end = await until(async () => {
    const payment = (await seller.payments.get(id))!
    if (payment.state !== 'owed') return payment
    if (payment.txHash !== undefined || payment.error !== undefined) seller.clock.set(payment.nextAttemptAt!)
    return undefined
  })
  expect(end.state).toBe('settled')
}
