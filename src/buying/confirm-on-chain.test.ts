import { afterEach, describe, expect, test } from 'vitest'
import { FakeSettlement } from '../../test/support/fake-settlement.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { randomHex } from '../../test/support/payments.ts'
import { ScriptedSeller } from '../../test/support/scripted-seller.ts'
import { TestBuyer } from '../../test/support/test-buyer.ts'
import { until } from '../../test/support/until.ts'
import { signedPayment } from '../ledger/payment-view.ts'
import { didOfPeer } from '../p2p/did.ts'
import { openDatabase } from '../store/database.ts'
import { createPurchases } from '../store/purchases.ts'

const buyers: TestBuyer[] = []
afterEach(async () => {
  await Promise.all(buyers.splice(0).map(({ recovery }) => recovery.stop()))
})

/** A call whose seller names a transaction, true or made up. */
async function bought({ txHash = randomHex(), hasChain = true, settles = false } = {}) {
  const clock = new HandClock()
  const settlement = new FakeSettlement()
  const database = openDatabase({ path: ':memory:' })
  const seller = new ScriptedSeller(async (stream) => {
    await stream.challenge(await stream.next())
    await stream.respond(await stream.next(), { tx_hash: txHash })
  })
  const buyer = new TestBuyer({ clock, database, open: seller.open, chain: hasChain ? settlement.chain : undefined })
  buyers.push(buyer)
  const { payment } = await buyer.execute()
  const { reservation } = (await buyer.ledger())[0]!
  const { authorization } = reservation!.envelope.payload!
  const real = settles ? settlement.pay(authorization) : undefined
  const view = async () =>
    signedPayment((await createPurchases(database, { hasChain }).reservationOf(reservation!.orderId))!)
  return { ...{ buyer, clock, settlement, payment, txHash, authorization, real, view }, reservation: reservation! }
}

describe('D41: the DID that a seller names is compared with the peer that is paid', () => {
  const peerId = '12D3KooWJWEKvSFbben74C7H4YtKjhPMTDxd7gP7zxWSUEeF27st'
  const other = didOfPeer('12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo')
  function buyerOf(challenged: string, responded: string): TestBuyer {
    const seller = new ScriptedSeller(async (stream) => {
      await stream.challenge(await stream.next(), { seller_did: challenged })
      await stream.respond(await stream.next(), { seller_did: responded })
    })
    const buyer = new TestBuyer({ open: seller.open })
    buyer.list({ seller_id: peerId })
    return buyer
  }

  test('in a challenge: nothing is signed for another peer', async () => {
    const buyer = buyerOf(other, '')
    await expect(buyer.execute()).rejects.toMatchObject({ code: 'LISTING_MISMATCH' })
    expect(await buyer.ledger()).toMatchObject([{ reservation: undefined }])
  })

  test('in a response: the paid result is taken, and the order notes it', async () => {
    const buyer = buyerOf(didOfPeer(peerId), other)
    expect((await buyer.execute()).output).toBe('result')
    expect((await buyer.ledger())[0]!.order.notes).toContain(`seller_did is that of another peer: ${other}`)
  })

  test('what is no DID of a peer, as other implementations send it, says nothing', async () => {
    const buyer = buyerOf('agent-id', 'did:web:example.org')
    expect((await buyer.execute()).output).toBe('result')
    expect(String((await buyer.ledger())[0]!.order.notes)).not.toMatch(/seller_did/)
  })
})

describe('D41 T26: at the buyer a payment is settled when its own chain shows it', () => {
  test('a transaction that the seller names is its claim', async () => {
    const { payment, txHash, view } = await bought()
    expect(payment).toMatchObject({ settlement: 'claimed', tx_hash: txHash })
    expect(await view()).toMatchObject({ settlement: 'claimed', tx_hash: txHash })
  })

  test('a transfer that the chain shows settles it, under the transaction of the chain', async () => {
    const { buyer, real, view } = await bought({ settles: true })
    await buyer.recovery.start()
    await until(async () => (await view()).settlement === 'settled')
    expect((await view()).tx_hash).toBe(real)
    expect(await buyer.spent()).toBe(10_000n)
  })

  test('a made-up transaction stays a claim while the payment may still be settled, and then is not charged', async () => {
    const { buyer, clock, reservation, view } = await bought()
    await buyer.recovery.start()
    await buyer.recovery.look(reservation.orderId)
    expect([(await view()).settlement, await buyer.spent()]).toEqual(['claimed', 10_000n])
    clock.set(reservation.validBeforeSeconds * 1000 + 31_000)
    await buyer.recovery.look(reservation.orderId)
    expect([(await view()).settlement, (await view()).tx_hash, await buyer.spent()]).toEqual(['released', '', 0n])
    expect(await buyer.ledger()).toMatchObject([{ order: { status: 'completed', output: 'result' } }])
  })

  test('a transaction of somebody else does not settle it', async () => {
    const { buyer, clock, settlement, authorization, reservation, view } = await bought()
    settlement.pay({ ...authorization, to: `0x${'99'.repeat(20)}` })
    await buyer.recovery.look(reservation.orderId)
    expect((await view()).settlement).toBe('claimed')
    clock.set(reservation.validBeforeSeconds * 1000 + 31_000)
    await buyer.recovery.look(reservation.orderId)
    expect([(await view()).settlement, await buyer.spent()]).toEqual(['released', 0n])
  })

  test('while the RPC is down it stays a claim, however long', async () => {
    const { buyer, clock, settlement, reservation, view } = await bought()
    settlement.chainIsDown = true
    clock.set(reservation.validBeforeSeconds * 1000 + 3_600_000)
    await buyer.recovery.look(reservation.orderId)
    expect([(await view()).settlement, await buyer.spent()]).toEqual(['claimed', 10_000n])
  })

  test('without an RPC the payment says so, and stays a claim', async () => {
    const { buyer, clock, reservation, view } = await bought({ hasChain: false })
    clock.set(reservation.validBeforeSeconds * 1000 + 31_000)
    await buyer.recovery.look(reservation.orderId)
    expect(await view()).toMatchObject({ settlement: 'claimed', settlement_note: expect.stringMatching(/no RPC/) })
    expect(await buyer.spent()).toBe(10_000n)
  })
})
