/** What the books show of calls on payment channels: they have no authorization and no transaction of their own. */
import { randomUUID } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { createLedgerApi } from '../../src/ledger/ledger-api.ts'
import { orderRecord } from '../../src/ledger/order-record.ts'
import { createReceipts, receiptsCsv } from '../../src/ledger/receipts.ts'
import { createSessions } from '../../src/ledger/sessions.ts'
import { channelId } from '../../src/payments/channel-digests.ts'
import { countIntoSums } from '../../src/payments/channels/buyer-channel.ts'
import { channelCallId } from '../../src/payments/channels/call-id.ts'
import { receiptOf } from '../../src/payments/receipt.ts'
import { proveReceipt } from '../../src/payments/receipt-proof.ts'
import { OrderRecord } from '../../src/schema/order.ts'
import { PaymentRecord } from '../../src/schema/payment-record.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { ReceiptRecord } from '../../src/schema/receipt-record.ts'
import { createBuyerChannels, type StoredChannel } from '../../src/store/buyer-channels.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createLedgerReader } from '../../src/store/ledger-reader.ts'
import { createPurchases } from '../../src/store/purchases.ts'
import { createReceiptStore } from '../../src/store/receipts.ts'
import { createSellerChannelStore } from '../../src/store/seller-channels.ts'
import { createSessionStore } from '../../src/store/sessions.ts'
import { channelsSince as now, payingChannelOf } from '../support/buyer-channels.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { agentId, payTo, requirements, sellerWallet, testWallet, usdc } from '../support/payments.ts'
import { callOf, channelOf } from '../support/seller-channels.ts'

const AMOUNT = 1_000n
let database: LedgerDatabase
const none = async () => undefined
const api = () =>
  createLedgerApi({
    ...{ ledger: createLedgerReader(database), nameOf: () => undefined, named: () => [], ownerOf: none },
    ...{ retrySettlement: async () => {}, refund: async () => {}, look: async () => {}, isReceived: async () => true },
  })
const receipts = () => {
  const x402 = { give: () => Promise.reject(), ask: () => Promise.reject() }
  return createReceipts({ store: createReceiptStore(database), nameOf: () => undefined, x402 })
}
const sessionParts = () => ({ store: createSessionStore(database), purchases: createPurchases(database) })
const signedReceipt = (paymentId: Hex, payer: Hex) =>
  sellerWallet.signReceipt(
    receiptOf({ network: usdc.network, agentId, task: 'task', result: 'result', paymentId, payer }, now),
  )

/** A call that this node bought on a channel. `ends`: false, it is under way. */
async function buy({ ends }: { ends: boolean }) {
  const template = payingChannelOf()
  const channel: StoredChannel = { ...template, id: channelId(template.config, usdc.chainId) }
  await createBuyerChannels(database).putDeposit(channel, () => true)
  const purchases = createPurchases(database)
  const correlationId = randomUUID()
  const paymentId = channelCallId(channel.id, correlationId)
  const payer = testWallet().address
  const shared = { agentId, sellerId: 'seller' }
  const order = {
    ...{ id: randomUUID(), ...shared, price: AMOUNT, status: 'executing' as const, task: 'task', correlationId },
    ...{ output: undefined, error: undefined, createdAt: now, updatedAt: now },
  }
  const server_nonce = 'preemptive' as const
  const [x402_version, scheme] = [2, 'batch-settlement'] as const
  const envelope = { x402_version, scheme, network: usdc.network, server_nonce, payer }
  const asked = { requirements: requirements({ amount: AMOUNT }), envelope, amount: AMOUNT }
  const reservation = { paymentId, orderId: order.id, ...shared, ...asked, channel: channel.id }
  await purchases.reserve(
    order,
    { ...reservation, validBeforeSeconds: now / 1000 + 240 },
    {
      day: '2026-01-01',
      limits: () => ({}),
    },
  )
  if (ends) {
    const charge = { amount: AMOUNT, total: AMOUNT, seq: 1 }
    await purchases.finish(
      { ...order, status: 'completed', output: 'result' },
      {
        ...{ paymentId, amount: AMOUNT, txHash: undefined, receipt: signedReceipt(paymentId, payer) },
        onChannel: { charge, count: (sums, asked) => countIntoSums(sums, { call: paymentId, asked, charge }) },
      },
    )
  }
  return { channel, paymentId, orderId: order.id, correlationId, payer }
}

/** A call that this node sold on a channel. */
async function sell() {
  const template = channelOf()
  const channel = { ...template, id: channelId(template.config, usdc.chainId) }
  const store = createSellerChannelStore(database)
  await store.add(channel, { perPeerMax: 1, max: 1 })
  const sold = callOf(1)
  const id = channelCallId(channel.id, sold.exchange.correlationId)
  const receipt = signedReceipt(id, channel.config.payer)
  const call = { ...sold, id, exchange: { ...sold.exchange, paymentId: id, receipt } }
  await store.charge({ ...channel, charged: AMOUNT, seq: 1 }, 0, { calls: [call], now })
  return { channel, id, call }
}

onBothEngines((open) => {
  beforeEach(async () => {
    database = await open()
  })

  test('a call that was bought on a channel is in the list of payments, with its channel, while it runs and after it', async () => {
    const [running, ended] = [await buy({ ends: false }), await buy({ ends: true })]
    const { items } = await api().payments({ limit: 10 })
    expect(items.map((item) => PaymentRecord.parse(item))).toEqual(items)
    expect(items).toMatchObject([
      { ...{ direction: 'out', state: 'settled', book: 'paid', tx_hash: '', channel_id: ended.channel.id } },
      { ...{ direction: 'out', state: 'reserved', book: 'held', tx_hash: '', channel_id: running.channel.id } },
    ])
    for (const item of items) expect(Object.keys(item)).not.toContain('nonce')
    expect(await api().payment(ended.paymentId)).toEqual(items[0])
    const purchases = createPurchases(database)
    const [order, made] = [await purchases.order(ended.orderId), await purchases.reservationOf(ended.orderId)]
    const shown = orderRecord(order!, made)
    expect(OrderRecord.parse(OrderRecord.encode(shown))).toEqual(shown)
    expect(shown.payment).toMatchObject({ channel_id: ended.channel.id, settlement: 'settled', tx_hash: '' })
  })

  test('a call that was sold on a channel is in payments and sessions, with its channel', async () => {
    const { channel, id, call } = await sell()
    const [item, ...others] = (await api().payments({ limit: 10 })).items
    expect(others).toEqual([])
    expect(PaymentRecord.parse(item)).toEqual(item)
    const money = { amount: '0.001', tx_hash: '', channel_id: channel.id, pay_to: payTo }
    expect(item).toMatchObject({ payment_id: id, direction: 'in', state: 'settled', book: 'earned', ...money })
    expect(Object.keys(item!)).not.toContain('valid_before')
    const sessions = createSessions({ ...sessionParts(), isKnown: () => true })
    const session = await sessions.get(agentId, call.exchange.callerId, { limit: 10 })
    expect(JSON.stringify(session)).toContain(channel.id)
  })

  test('receipts of calls on channels are listed and exported, and prove whom the channel pays', async () => {
    const [bought, sold] = [await buy({ ends: true }), await sell()]
    const { items } = await receipts().list({ limit: 10 })
    expect(items.map((item) => ReceiptRecord.parse(item))).toEqual(items)
    expect(items.map(({ channel }) => channel!.id).toSorted()).toEqual([bought.channel.id, sold.channel.id].toSorted())
    for (const item of items) {
      expect(item.status).toBe('valid')
      expect(Object.keys(item)).not.toContain('authorization')
      const proof = proveReceipt({ ...item, receipt: item.receipt! })
      expect(proof).toMatchObject({ ok: true, failed: [], signer: payTo })
      expect(proof.proven).toContain('the signer is the account that this channel pays')
    }
    const [head, ...lines] = receiptsCsv(items, { headings: true }).trim().split(/\r?\n/)
    const column = head!.split(',').indexOf('channel_id')
    expect(lines.map((line) => line.split(',')[column]).toSorted()).toEqual(
      items.map(({ channel }) => channel!.id).toSorted(),
    )
    expect((await receipts().get(bought.paymentId))?.payer).toBe(bought.payer)
  })

  test('a receipt beside another call, another channel or other terms is contradicted', async () => {
    const { paymentId } = await buy({ ends: true })
    const { receipt, channel } = (await receipts().get(paymentId))!
    const judge = (changes: object) => proveReceipt({ receipt: receipt!, channel: { ...channel!, ...changes } })
    expect(judge({ correlation_id: randomUUID() }).failed.join()).toMatch(/not about call/)
    expect(judge({ id: `0x${'7'.repeat(64)}` }).failed.join()).toMatch(/not about call/)
    const config = { ...channel!.config!, receiver: testWallet(9).address }
    expect(judge({ config }).failed.join()).toMatch(/terms beside it/)
    const alone = judge({ config: undefined })
    expect(alone.ok).toBe(true)
    expect(alone.unproven.join()).toMatch(/terms are not at hand/)
  })
})
