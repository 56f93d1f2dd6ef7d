/** T31 T32: a request for a stored result is a few bytes, and its answer may be megabytes. */
import { afterEach, expect, test } from 'vitest'
import { agentId } from '../../../test/support/payments.ts'
import { until } from '../../../test/support/until.ts'
import { type TestPeer, TestSeller } from '../../../test/support/x402-seller.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'

const RESULT = 'x'.repeat(2_000_000)
const ASKED_PER_STREAM = 8
const sellers: TestSeller[] = []
afterEach(() => Promise.all(sellers.splice(0).map((seller) => seller.stop())))

/** A seller with a large result for each of these peers, and how often one was read since. */
async function setup(peerIds: readonly string[]) {
  const seller = await new TestSeller().start()
  sellers.push(seller)
  seller.work = () => Promise.resolve(RESULT)
  const bought = await Promise.all(
    peerIds.map(async (peerId) => {
      const peer = await seller.connect(peerId)
      return { peer, payment: (await peer.buy()).payment }
    }),
  )
  const reads: number[] = []
  let turn = 0
  const { paidOutput } = seller.deps.exchanges
  seller.deps.exchanges.paidOutput = (id) => {
    reads.push(turn)
    return paidOutput(id)
  }
  const count = () => {
    turn++
    if (sellers.includes(seller)) setImmediate(count)
  }
  setImmediate(count)
  return { seller, bought, reads }
}

function ask(peer: TestPeer, payment: PaymentEnvelope): Promise<void> {
  return peer.send('x402.request', peer.message({ resource: agentId, method: 'result', payment, body: '' }))
}

test('a peer that takes no answer has the results of one stream read for it, and others are answered meanwhile', async () => {
  const { seller, bought, reads } = await setup(['deaf', 'other'])
  const [{ payment }, other] = bought as [(typeof bought)[0], (typeof bought)[0]]
  for (let stream = 0; stream < 4; stream++) {
    const deaf = await seller.connect('deaf')
    deaf.raw.pause()
    for (let time = 0; time < ASKED_PER_STREAM; time++) await ask(deaf, payment)
  }
  await until(() => reads.length > 0)
  const answer = await other.peer.askResult(other.payment)
  expect(answer).toMatchObject({ type: 'x402.response', message: { body: Buffer.from(RESULT).toString('base64') } })
  // What the buffers of the first stream take, and the other's.
  expect(reads.length).toBeLessThanOrEqual(ASKED_PER_STREAM + 1)
})

test('a peer that takes its answers gets all that it asks for', async () => {
  const { bought, reads } = await setup(['buyer'])
  const { peer, payment } = bought[0]!
  for (let time = 0; time < 8; time++) await ask(peer, payment)
  for (let time = 0; time < 8; time++) expect((await peer.next())?.type).toBe('x402.response')
  expect(reads).toHaveLength(8)
})

test('what many peers ask for at once is read in as many turns of the event loop', async () => {
  const peerIds = ['a', 'b', 'c', 'd', 'e', 'f']
  const { bought, reads } = await setup(peerIds)
  const answers = bought.map(({ peer, payment }) => peer.askResult(payment))
  for (const answer of await Promise.all(answers)) expect(answer?.type).toBe('x402.response')
  expect(new Set(reads).size).toBe(peerIds.length)
})
