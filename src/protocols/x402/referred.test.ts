/** ADR-38: a process whose machines are busy sends calls on to another one of its seller, if their clients allow that. */
import { expect, onTestFinished, test } from 'vitest'
import { agentId, signed } from '../../../test/support/payments.ts'
import { base64, TestSeller, told } from '../../../test/support/x402-seller.ts'

async function busy() {
  const seller = await new TestSeller().start()
  onTestFinished(() => seller.stop())
  let free = 1
  const isFreeElsewhere = () => free-- > 0
  seller.addAgent({ isFreeElsewhere })
  seller.addAgent({ id: 'free', amount: 0n, isFreeElsewhere })
  return { seller, left: () => free }
}

test.each([agentId, 'free'])('a call of %s is sent on once, before anything is paid or run', async (resource) => {
  const { seller } = await busy()
  const peer = await seller.connect()
  const body = base64('task')
  expect(told(await peer.request({ resource, body, may_refer: true }))).toBe('OVERLOADED')
  expect(seller.runs).toEqual([])
  expect(told(await peer.request({ resource, body, may_refer: true }))).not.toBe('OVERLOADED')
})

test('a client that does not say so is never sent on, and a payment stays where it is', async () => {
  const { seller, left } = await busy()
  const peer = await seller.connect()
  for (const may_refer of [undefined, false, 'yes', 1]) {
    expect(told(await peer.request({ may_refer }))).toBe('x402.payment_required')
  }
  const { envelope } = signed(seller.clock.now(), { serverNonce: 'preemptive' as never })
  expect(told(await peer.request({ payment: envelope, may_refer: true }))).toBe('re: task')
  expect(left()).toBe(1)
})
