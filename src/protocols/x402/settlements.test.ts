/** D46: with a result a buyer asks for the transactions of other payments. */
import { expect, test } from 'vitest'
import { randomHex } from '../../../test/support/payments.ts'
import { startSeller } from '../../../test/support/started-seller.ts'
import { told } from '../../../test/support/x402-seller.ts'

async function sold() {
  const seller = await startSeller()
  const [peer, other] = [await seller.connect(), await seller.connect('other')]
  const [first, second, third, foreign] = [await peer.buy(), await peer.buy(), await peer.buy(), await other.buy()]
  const hashOf = async (id: `0x${string}`) => (await seller.payments.get(id))?.txHash
  return { peer, first, second, third, foreign, hashOf }
}

test('a request for a result learns the transactions of other payments of this peer, and of no other peer', async () => {
  const { peer, first, second, third, foreign, hashOf } = await sold()
  const asked = [second.paymentId, third.paymentId, foreign.paymentId, randomHex()]
  const answer = await peer.askResult(first.payment, { settlements_of: asked })
  expect(answer?.message).toMatchObject({ payment_id: first.paymentId, tx_hash: await hashOf(first.paymentId) })
  expect(told(answer)).toBe('re: task')
  expect(answer?.message.settlements).toEqual([
    { payment_id: second.paymentId, tx_hash: await hashOf(second.paymentId) },
    { payment_id: third.paymentId, tx_hash: await hashOf(third.paymentId) },
  ])
})

test.each([
  ['nothing', undefined],
  ['too many', Array.from({ length: 129 }, () => randomHex())],
  ['no ids', ['0x1']],
  ['no list', { length: 1 }],
])('a request that names %s gets its result alone', async (_name, asked) => {
  const { peer, first } = await sold()
  const answer = await peer.askResult(first.payment, { settlements_of: asked })
  expect([told(answer), answer?.message.settlements]).toEqual(['re: task', undefined])
})
