import { expect, test } from 'vitest'
import { FakeSettlement } from '../../test/support/fake-settlement.ts'
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

/** A buyer whose chain shows the transfer at the third look. `looks`: how often it was asked. */
function laggingBuyer() {
  const settlement = new FakeSettlement()
  let looks = 0
  const buyer: TestBuyer = new TestBuyer({
    open: oldSeller().open,
    chain: {
      ...settlement.chain,
      async authorizationUse(...asked) {
        looks += 1
        const [bought] = await buyer.ledger()
        if (looks === 3) settlement.pay(bought!.reservation!.envelope.payload!.authorization)
        return settlement.chain.authorizationUse(...asked)
      },
    },
  })
  return { buyer, looks: () => looks }
}

test('D46: a buyer that waits for the settlement looks again until its chain shows what the seller named', async () => {
  const { buyer, looks } = laggingBuyer()
  const { payment } = await buyer.execute({ awaitsSettlement: true })
  expect([payment?.settlement, looks()]).toEqual(['settled', 3])
  expect((await buyer.ledger())[0]!.reservation).toMatchObject({ state: 'spent', confirmation: 'chain' })
})

test('D46: a buyer that does not wait is not kept by its chain', async () => {
  const { buyer, looks } = laggingBuyer()
  expect([(await buyer.execute()).payment?.settlement, looks()]).toEqual(['claimed', 0])
})
