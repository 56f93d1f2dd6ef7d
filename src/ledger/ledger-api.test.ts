import { expect, onTestFinished, test } from 'vitest'
import { randomHex } from '../../test/support/payments.ts'
import { TestBuyer } from '../../test/support/test-buyer.ts'
import { TestSeller } from '../../test/support/x402-seller.ts'
import { RUN_CANCELED } from '../schema/limits.ts'
import { openDatabase } from '../store/database.ts'
import { createExchanges } from '../store/exchanges.ts'
import { createLedgerReader } from '../store/ledger-reader.ts'
import { createLedgerApi } from './ledger-api.ts'

test('D44: retry asks the seller of what is paid as long as it has no result, and not after it', async () => {
  const seller = await new TestSeller({}).start()
  const buyer = new TestBuyer({ clock: seller.clock, open: (_peer, protocol) => seller.open('buyer', protocol) })
  seller.settlement.usual = { moves: false, answer: { kind: 'unclear', reason: 'no answer' } }
  await buyer.execute()
  const [{ order, reservation } = {}] = await buyer.ledger()
  const asked: string[] = []
  let isReceived = false
  const api = createLedgerApi({
    ownerOf: async () => undefined,
    ledger: createLedgerReader(buyer.database),
    nameOf: () => undefined,
    named: () => [],
    refund: async () => {},
    retrySettlement: async () => {},
    look: async (id) => void asked.push(id),
    isReceived: async () => isReceived,
  })
  await api.retry(reservation!.paymentId)
  expect(asked).toEqual([order!.id])
  isReceived = true
  await expect(api.retry(reservation!.paymentId)).rejects.toMatchObject({ code: 'PAYMENT_FINAL' })
  await expect(api.retry(randomHex())).rejects.toMatchObject({ code: 'UNKNOWN_PAYMENT' })
  await seller.stop()
})

test('a run that its caller canceled is told apart from a failed one', async () => {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  const exchanges = createExchanges(database)
  for (const ended of [{ output: 'y' }, { error: 'broke' }, { error: RUN_CANCELED }]) {
    const task = { agentId: 'sold', callerId: 'did:peer:them', correlationId: 'c', input: 'x' }
    await exchanges.record({ ...task, ...ended, createdAt: 0, durationMs: 1 })
  }
  const api = createLedgerApi({
    ownerOf: async () => undefined,
    ledger: createLedgerReader(database),
    nameOf: () => undefined,
    named: () => [],
    refund: async () => {},
    retrySettlement: async () => {},
    look: async () => {},
    isReceived: async () => true,
  })
  const { items } = await api.executions({ limit: 9 })
  expect(items.map(({ error, canceled }) => [error, canceled])).toEqual([
    [RUN_CANCELED, true],
    ['broke', undefined],
    [undefined, undefined],
  ])
})
