import { describe, expect, test } from 'vitest'
import { agentId, payTo, sellerWallet, testWallet } from '../../test/support/payments.ts'
import { ScriptedSeller } from '../../test/support/scripted-seller.ts'
import { startSeller } from '../../test/support/started-seller.ts'
import { TestBuyer } from '../../test/support/test-buyer.ts'
import type { TestSellerOptions } from '../../test/support/x402-seller.ts'
import { contentHash, receiptOf, receiptSigner } from '../payments/receipt.ts'
import type { Page } from '../schema/page.ts'
import { openDatabase } from '../store/database.ts'
import { createReceiptStore, type StoredReceipt } from '../store/receipts.ts'

async function market(options: TestSellerOptions = {}) {
  const seller = await startSeller(options)
  const buyer = new TestBuyer({ clock: seller.clock, open: (_peer, protocol) => seller.open('buyer', protocol) })
  return { seller, buyer, given: createReceiptStore(seller.database), got: createReceiptStore(buyer.database) }
}

describe('a paid call ends with a receipt', () => {
  test('that the account signs which is paid, and that both sides keep', async () => {
    const { seller, buyer, given, got } = await market()
    const { payment } = await buyer.execute({ input: 'Grüße' })
    const [theirs, ours] = [await given.get(payment!.payment_id), await got.get(payment!.payment_id)]
    expect(ours?.receipt?.payload).toEqual({
      version: 1,
      network: 'eip155:84532',
      resourceUrl: `x402+libp2p:${agentId}`,
      payer: testWallet().address,
      issuedAt: Math.floor(seller.clock.now() / 1000),
      transaction: '',
      paymentId: payment!.payment_id,
      taskHash: contentHash('Grüße'),
      resultHash: contentHash('re: Grüße'),
    })
    expect(receiptSigner(ours!.receipt!)).toBe(payTo)
    expect(theirs?.receipt).toEqual(ours?.receipt)
    expect([theirs?.direction, ours?.direction, ours?.note]).toEqual(['in', 'out', undefined])
  })

  test('that names the transaction where the seller settles first', async () => {
    const { buyer, got, given } = await market({ settleFirst: true })
    const { payment } = await buyer.execute()
    expect(payment!.tx_hash).toMatch(/^0x[0-9a-f]{64}$/)
    for (const store of [got, given]) {
      expect((await store.get(payment!.payment_id))?.receipt?.payload.transaction).toBe(payment!.tx_hash)
    }
  })

  test('the same one whenever the result is asked for again (D32)', async () => {
    const { seller } = await market()
    const peer = await seller.connect()
    const { answer, payment } = await peer.buy()
    seller.clock.advance(60_000)
    const again = await peer.askResult(payment)
    expect(answer?.message.receipt).toMatchObject({ format: 'eip712' })
    expect(again?.message.receipt).toEqual(answer?.message.receipt)
  })

  test('a free call, a failed one and a voided payment have none', async () => {
    const { seller, buyer, given, got } = await market()
    await buyer.execute({ agentId: 'free' })
    seller.work = () => Promise.reject(new Error('no'))
    await buyer.execute().catch(() => {})
    expect([(await given.list({ limit: 9 })).items, (await got.list({ limit: 9 })).items]).toEqual([[], []])
  })
})

describe('a result is never lost to its receipt', () => {
  const bought = { network: 'eip155:84532', agentId, payer: testWallet().address, task: 'task', result: 'result' }
  async function buyFrom(receiptFor: (paymentId: string) => unknown) {
    const seller = new ScriptedSeller(async (stream) => {
      await stream.challenge(await stream.next())
      const paid = await stream.next()
      const payment_id = (await buyer.ledger())[0]!.reservation!.paymentId
      await stream.respond(paid, { payment_id, receipt: receiptFor(payment_id) })
    })
    const buyer: TestBuyer = new TestBuyer({ open: seller.open })
    const { output, payment } = await buyer.execute()
    return { output, kept: await createReceiptStore(buyer.database).get(payment!.payment_id) }
  }

  test.each([
    ['missing', () => undefined, ''],
    ['of another shape', () => ({ format: 'jws', signature: 'x'.repeat(100_000) }), 'cannot be read'],
    ['of another payment', () => sign({ paymentId: `0x${'1'.repeat(64)}` }), 'paymentId'],
    ['of another key', (paymentId: string) => sign({ paymentId }, testWallet(7)), 'signed by'],
  ])('%s: it is taken, and what is wrong is noted', async (_about, receiptFor, note) => {
    const { output, kept } = await buyFrom(receiptFor)
    expect(output).toBe('result')
    expect(kept?.receipt).toBeUndefined()
    expect(kept?.note).toEqual(note === '' ? '' : expect.stringContaining(note))
  })

  test('a good one is kept without a note', async () => {
    const { kept } = await buyFrom((paymentId) => sign({ paymentId }))
    expect([kept?.note, kept?.receipt?.payload.resultHash]).toEqual([undefined, contentHash('result')])
  })

  function sign({ paymentId }: { paymentId: string }, wallet = sellerWallet) {
    return wallet.signReceipt(receiptOf({ ...bought, paymentId: paymentId as `0x${string}` }, 0))
  }
})

test('receipts are listed page by page over both ledgers, the newest first', async () => {
  // One database for both, as in a node that sells and buys.
  const database = openDatabase({ path: ':memory:' })
  const seller = await startSeller({ database })
  const open = (_peer: unknown, protocol: string) => seller.open('buyer', protocol)
  const buyer = new TestBuyer({ clock: seller.clock, database, open })
  const got = createReceiptStore(database)
  for (let index = 0; index < 5; index++) {
    await buyer.execute({ input: `${index}` })
    seller.clock.advance(1_000)
  }
  const seen: string[] = []
  let cursor: string | undefined
  do {
    const page: Page<StoredReceipt> = await got.list({ limit: 3, cursor })
    seen.push(...page.items.map(({ direction, receipt }) => `${direction} ${receipt!.payload.taskHash}`))
    cursor = page.next
  } while (cursor !== undefined)
  const tasks = ['4', '3', '2', '1', '0'].map(contentHash)
  expect(seen).toEqual(tasks.flatMap((task) => [`in ${task}`, `out ${task}`]))
  expect((await got.list({ limit: 9, direction: 'out' })).items).toHaveLength(5)
  expect((await got.list({ limit: 9, agentId: 'other' })).items).toEqual([])
})
