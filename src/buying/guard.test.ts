import { describe, expect, test } from 'vitest'
import { listedAgent } from '../../test/support/listings.ts'
import { requirements } from '../../test/support/payments.ts'
import { ScriptedSeller } from '../../test/support/scripted-seller.ts'
import { TestBuyer } from '../../test/support/test-buyer.ts'
import { signedPayment } from '../ledger/payment-view.ts'
import { MarketError } from '../listings/market-error.ts'
import { permittedPrice } from './guard.ts'

/** How long a payment is valid that was signed for a seller that asks for `asked` seconds. */
async function windowOf(asked: number, { listed, most }: { listed?: number; most?: number } = {}): Promise<number> {
  const seller = new ScriptedSeller(async (stream) => {
    const terms = requirements({ maxTimeoutSeconds: asked })
    await stream.challenge(await stream.next(), { payment_requirements: terms })
    await stream.respond(await stream.next())
  })
  const buyer = new TestBuyer({ open: seller.open })
  buyer.list(listed === undefined ? {} : { timeout_seconds: listed })
  if (most !== undefined) buyer.deps.maxWindowSeconds = most
  await buyer.execute()
  const { validAfter, validBefore } = (await buyer.ledger())[0]!.reservation!.envelope.payload!.authorization
  return Number(validBefore - validAfter)
}

describe('D51: the window that a buyer signs', () => {
  test.each([
    ['is as long as the seller asks, where that is short', 60, {}, 60],
    ['is no longer than the agent’s limit and 120 s', 3_660, { listed: 30 }, 150],
    ['is no longer than 900 s, where the listing has no limit', 3_660, {}, 900],
    ['is no longer than 900 s, whatever limit the listing has', 3_720, { listed: 3_600 }, 900],
    ['is no longer than the operator’s maximum', 3_660, { listed: 3_600, most: 300 }, 300],
    ['is as long as the operator lets it be', 3_660, { listed: 3_600, most: 3_720 }, 3_660],
  ])('%s', async (_what, asked, options, expected) => {
    expect(await windowOf(asked, options)).toBe(expected)
  })
})

test('the refusal of a metered agent does not say that each call costs its highest price', () => {
  const sold = { ...listedAgent('Writer', 20_000n), buyable: true }
  const refused = (more: object) => () => permittedPrice({ ...sold, ...more }, 10_000n, 1_000_000n)
  expect(refused({})).toThrow('Writer costs 0.02 USDC, and this call allows 0.01 USDC: nothing was signed')
  expect(refused({ pricing: { per_second: 5n, max: 20_000n } })).toThrow(
    'Writer costs up to 0.02 USDC, and this call allows',
  )
})

test('T33: a node that has stopped trading signs nothing, and asks no seller', async () => {
  const seller = new ScriptedSeller(async (stream) => {
    await stream.challenge(await stream.next())
  })
  const buyer = new TestBuyer({ open: seller.open })
  let asked = 0
  const check = () => {
    if (asked++ === 0) return
    throw new MarketError('LEDGER_COPIED', 'another node uses the identity of this one; nothing is bought or sold')
  }
  buyer.deps.trading = { check }
  // Between the first look and the signature the other node was met.
  await expect(buyer.execute()).rejects.toMatchObject({ code: 'LEDGER_COPIED' })
  await expect(buyer.execute()).rejects.toMatchObject({ code: 'LEDGER_COPIED' })
  expect((await buyer.ledger()).map(({ order, reservation }) => [order.status, reservation])).toEqual([
    ['failed', undefined],
    ['failed', undefined],
  ])
  expect(seller.received).toHaveLength(1)
})

describe('D45: a seller that settles before its agent runs', () => {
  const asking = (changes: object, answers = true) =>
    new ScriptedSeller(async (stream) => {
      await stream.challenge(await stream.next(), { payment_requirements: { ...requirements(), ...changes } })
      if (answers) await stream.respond(await stream.next())
    })
  const says = { extra: { settles_first: true } }

  test('is paid by default, and the payment says so', async () => {
    const buyer = new TestBuyer({ open: asking(says).open })
    await buyer.execute()
    const { reservation } = (await buyer.ledger())[0]!
    expect(signedPayment(reservation!).settles_first).toBe(true)
  })

  test('is not signed for where the operator forbids it', async () => {
    const buyer = new TestBuyer({ open: asking(says, false).open })
    buyer.deps.allowSettleFirst = false
    await expect(buyer.execute()).rejects.toMatchObject({ code: 'SETTLES_FIRST', message: /nothing was signed/ })
    expect((await buyer.ledger()).map(({ reservation }) => reservation)).toEqual([undefined])
  })

  test('is one of the original node, which does not say so: its nonce has no 0x', async () => {
    const seller = new ScriptedSeller(async (stream) =>
      stream.challenge(await stream.next(), { challenge_nonce: 'ab'.repeat(32) }),
    )
    const buyer = new TestBuyer({ open: seller.open })
    buyer.deps.allowSettleFirst = false
    await expect(buyer.execute()).rejects.toMatchObject({ code: 'SETTLES_FIRST' })
    expect(await buyer.ledger()).toMatchObject([{ order: { status: 'failed' }, reservation: undefined }])
  })

  test('is told by a payment that it would be one, since the window is too short for its agent (D51)', async () => {
    const buyer = new TestBuyer({ open: asking({ maxTimeoutSeconds: 720 }, false).open })
    Object.assign(buyer.deps, { allowSettleFirst: false, maxWindowSeconds: 300 })
    await expect(buyer.execute()).rejects.toMatchObject({ code: 'SETTLES_FIRST' })
  })

  test.each([undefined, null, [], 'x', { name: 'USDC', version: '2' }, { settles_first: 'true' }])(
    'is not one that says %j',
    async (extra) => {
      const seller = asking({ extra })
      const buyer = new TestBuyer({ open: seller.open })
      buyer.deps.allowSettleFirst = false
      await buyer.execute()
      expect((await buyer.ledger())[0]!.reservation!.settlesFirst).toBeUndefined()
      // The seller is told, for what it cannot know before the signature.
      for (const { message } of seller.received) expect(message).toMatchObject({ allow_settle_first: false })
    },
  )
})
