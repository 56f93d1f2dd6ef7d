import { afterEach, expect, test } from 'vitest'
import { until } from '../../../test/support/until.ts'
import { TestSeller } from '../../../test/support/x402-seller.ts'
import { AgentError } from '../../agents/runtime.ts'

let seller: TestSeller
afterEach(() => seller.stop())

/** What the seller logs of a buyer that leaves during its run, and the state of its payment. */
async function left(how: (buyer: Awaited<ReturnType<TestSeller['connect']>>, goOn: () => void) => void) {
  seller = await new TestSeller().start()
  const { promise: goOn, resolve } = Promise.withResolvers<string>()
  seller.work = ({ signal }) =>
    new Promise((done, reject) => {
      void goOn.then(done)
      signal.addEventListener('abort', () => reject(new AgentError('AGENT_CANCELLED', 'the task was canceled')))
    })
  const buyer = await seller.connect()
  const { payment, paymentId, correlation_id } = await buyer.challenged()
  await buyer.send('x402.paid_request', buyer.message({ payment, correlation_id }))
  await until(() => seller.runs.length === 1)
  seller.log.length = 0
  how(buyer, () => resolve('done'))
  await until(async () => (await seller.payments.get(paymentId))?.state !== 'authorized')
  await until(() => seller.log.length > 0)
  return seller.log
}

test('a buyer that cancels is a line without an error', async () => {
  const log = await left((buyer) => buyer.raw.abort(new Error('changed my mind')))
  expect(log).toContainEqual([expect.objectContaining({ reason: 'the task was canceled' }), 'a paid run was canceled'])
  expect(log.filter(([fields]) => Object.hasOwn(fields as object, 'err'))).toEqual([])
})

test('a buyer whose connection ends is a line without an error, and pays for its run', async () => {
  const gone = Object.assign(new Error('the connection is closed'), { name: 'ConnectionClosedError' })
  const log = await left((_buyer, goOn) => {
    seller.inbound[0]!.abort(gone)
    goOn()
  })
  await until(() => log.some(([, text]) => text === 'a peer left before it had its answer'))
  expect(log.filter(([fields]) => Object.hasOwn(fields as object, 'err'))).toEqual([])
})
