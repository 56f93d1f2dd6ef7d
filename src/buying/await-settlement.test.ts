import { expect, test } from 'vitest'
import { randomHex } from '../../test/support/payments.ts'
import { ScriptedSeller, type ScriptedStream } from '../../test/support/scripted-seller.ts'
import { TestBuyer } from '../../test/support/test-buyer.ts'

/** A seller that knows only the specification's messages, and answers after it has settled. */
function oldSeller(txHash = randomHex()) {
  return new ScriptedSeller(async (stream: ScriptedStream) => {
    for (let asked = await stream.next(); asked !== undefined; asked = await stream.next()) {
      const isPaid = asked.type === 'x402.paid_request'
      await (isPaid ? stream.respond(asked, { tx_hash: txHash }) : stream.challenge(asked))
    }
  })
}

test('D46: a buyer asks for its result first beside the payment alone', async () => {
  const seller = oldSeller()
  await new TestBuyer({ open: seller.open }).execute()
  const [asked, paid] = seller.received.map(({ message }) => message as Record<string, unknown>)
  expect(asked).not.toHaveProperty('await_settlement')
  expect(paid).toHaveProperty('await_settlement', false)
})

test('D46: a buyer that wants the transaction does not send the field at all', async () => {
  const seller = oldSeller()
  await new TestBuyer({ open: seller.open }).execute({ awaitsSettlement: true })
  expect(seller.received.map(({ type }) => type)).toEqual(['x402.request', 'x402.paid_request'])
  for (const { message } of seller.received) expect(message).not.toHaveProperty('await_settlement')
})

test('D46: of a seller that does not know the field a buyer takes the transaction with the result', async () => {
  const txHash = randomHex()
  const buyer = new TestBuyer({ open: oldSeller(txHash).open })
  expect((await buyer.execute()).payment).toMatchObject({ tx_hash: txHash, settlement: 'claimed' })
})
