/** T5: one authorization and one challenge buy one run, however long the ledger takes to answer. */
import { randomUUID } from 'node:crypto'
import { afterEach, expect, test } from 'vitest'
import { randomHex, signed } from '../../../test/support/payments.ts'
import { slowReads } from '../../../test/support/slow-reads.ts'
import { base64, TestSeller, type TestSellerOptions, told } from '../../../test/support/x402-seller.ts'
import type { Hex } from '../../schema/primitives.ts'
import { openDatabase } from '../../store/database.ts'

let seller: TestSeller
afterEach(() => seller.stop())

async function start(options: TestSellerOptions = {}) {
  const database = slowReads(openDatabase({ path: ':memory:' }))
  seller = await new TestSeller({ database, ...options }).start()
  return { first: await seller.connect(), second: await seller.connect() }
}

test('an authorization that comes twice at once buys one run', async () => {
  const { first, second } = await start()
  const { envelope } = signed(seller.clock.now())
  const asked = [first, second].map(async (peer) => told(await peer.request({ payment: envelope })))
  expect((await Promise.all(asked)).sort()).toEqual(['PAYMENT_NONCE_USED', 're: task'])
  expect(seller.runs).toHaveLength(1)
  expect(told(await first.request({ payment: envelope }))).toBe('PAYMENT_NONCE_USED')
})

test('two payments under one challenge at once buy one run', async () => {
  const { first, second } = await start()
  const correlation_id = randomUUID()
  const { payment } = await first.challenged({ correlation_id })
  const serverNonce = payment.server_nonce as Hex
  const other = signed(seller.clock.now(), { serverNonce, authorizationNonce: randomHex() }).envelope
  const asked = [first.paidRequest(payment, { correlation_id }), second.paidRequest(other, { correlation_id })].map(
    async (answer) => told(await answer),
  )
  expect((await Promise.all(asked)).sort()).toEqual(['PAYMENT_NONCE_USED', 're: task'])
  expect(seller.runs).toHaveLength(1)
})

test('work that is paid for and has not run is run once, however often it is asked for at once', async () => {
  const { first, second } = await start({ settleFirst: true })
  seller.work = () => Promise.reject(new Error('broken'))
  const { envelope } = signed(seller.clock.now())
  expect(told(await first.request({ payment: envelope, body: base64('task') }))).toBe('EXECUTION_FAILED')
  seller.work = async () => 'at last'
  const asked = [first, second].map(async (peer) => told(await peer.askResult(envelope)))
  expect(await Promise.all(asked)).toEqual(['at last', 'at last'])
  expect(seller.runs).toHaveLength(2)
})
