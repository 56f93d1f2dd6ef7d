import { expect, test } from 'vitest'
import { listingFixture } from '../../test/support/fake-api.ts'
import { createFakeMarket } from '../../test/support/fake-market.ts'
import { agentId, payTo, randomHex, usdc } from '../../test/support/payments.ts'
import { ScriptedSeller, type ScriptedStream } from '../../test/support/scripted-seller.ts'
import { until } from '../../test/support/until.ts'
import type { AnyX402Message } from '../protocols/x402/messages.ts'
import { readPaymentIds } from '../schema/x402.ts'
import { openDatabase } from '../store/database.ts'

type Question = Extract<AnyX402Message, { type: 'x402.request' }>
type Answer = (question: Question, stream: ScriptedStream) => Promise<void>

type Found = { questions: number; named: number }

/** Buys from a seller that names no transaction with a result, and looks after that until this was found. */
async function askedAfter(calls: number, answer: Answer, wanted: Found): Promise<Found> {
  const questions: Question[] = []
  const seller = new ScriptedSeller(async (stream) => {
    for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
      if (message.type === 'x402.request' && message.message.method === 'result') {
        questions.push(message)
        await answer(message, stream)
      } else if (message.type === 'x402.request') await stream.challenge(message, { challenge_nonce: randomHex() })
      else await stream.respond(message)
    }
  })
  const database = openDatabase({ path: ':memory:' })
  const listing = listingFixture({ id: agentId, pay_to: payTo, asset: usdc.address, seller_id: 'seller' })
  const buyer = createFakeMarket(() => [listing], { database, openStream: seller.open })
  const recovery = buyer.services.find(({ name }) => name === 'recovery')!
  for (let n = 0; n < calls; n++) {
    await buyer.execute({ agentId, input: 'task', signal: AbortSignal.timeout(10_000) })
  }
  const found = () => {
    const rows = database.all<{ tx: Uint8Array }>('SELECT tx_hash AS tx FROM authorizations WHERE tx_hash IS NOT NULL')
    return { questions: questions.length, named: new Set(rows.map(({ tx }) => tx.join())).size }
  }
  await recovery.start()
  await until(() => found().questions >= wanted.questions && found().named >= wanted.named)
  await recovery.stop()
  return found()
}

const settlementsFor = ({ message }: Question) =>
  readPaymentIds(message.settlements_of)?.map((payment_id) => ({ payment_id, tx_hash: randomHex() }))

test('D46: a seller names the transactions of 129 purchases in one answer', async () => {
  const wanted = { questions: 2, named: 150 }
  const answer: Answer = (question, stream) =>
    stream.respond(question, { tx_hash: randomHex(), settlements: settlementsFor(question) })
  expect(await askedAfter(150, answer, wanted)).toEqual(wanted)
})

test('D46: a seller that names no other transactions is asked about each purchase', async () => {
  const wanted = { questions: 4, named: 4 }
  const answer: Answer = (question, stream) => stream.respond(question, { tx_hash: randomHex() })
  expect(await askedAfter(4, answer, wanted)).toEqual(wanted)
})

test('D46: if the first result is no longer kept, each purchase is asked about', async () => {
  const wanted = { questions: 5, named: 4 }
  const answer: Answer = (question, stream) =>
    question.message.settlements_of === undefined
      ? stream.respond(question, { tx_hash: randomHex() })
      : stream.refuse(question, 'UNKNOWN_RESOURCE')
  expect(await askedAfter(4, answer, wanted)).toEqual(wanted)
})

test.each([
  ['other payments than it was asked about', [{ payment_id: randomHex(), tx_hash: randomHex() }], 1],
  ['what cannot be read', 'all of them', 3],
])('D46: a seller that speaks of %s names no transaction', async (_what, settlements, questions) => {
  const wanted = { questions, named: 0 }
  const answer: Answer = (question, stream) => stream.respond(question, { settlements })
  expect(await askedAfter(3, answer, wanted)).toEqual(wanted)
})
