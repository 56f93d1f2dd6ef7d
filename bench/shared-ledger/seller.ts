import { createDeferred } from '../../src/store/deferred.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createPayments } from '../../src/store/payments.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { claim, exchangeOf, randomHex, testWallet } from '../../test/support/payments.ts'
import { type LoadPlan, runLoad } from '../load.ts'
import { countTraffic, TRAFFIC } from '../paid-call/traffic.ts'
import { servePart } from '../part.ts'

const PAYERS = 1_000
const RECOUNT_MS = 1_000

/** One process of a seller: what its sales ask of a shared ledger, without signatures, network and agents. */
servePart(async ({ databaseUrl = '' }) => {
  const traffic = countTraffic()
  const ledger = await openPostgres({ address: databaseUrl })
  const payments = createPayments(ledger)
  const recounts = setInterval(() => void payments.recount(), RECOUNT_MS)
  const call = saleOn(ledger)
  return {
    ready: {},
    answer: async (question) => (question === TRAFFIC ? traffic() : runLoad(question as LoadPlan, call)),
    async stop() {
      clearInterval(recounts)
      await ledger.close()
    },
  }
})

/** A sale, in the order of protocols/x402/sale.ts: one read and three changes. */
function saleOn(ledger: LedgerDatabase): () => Promise<void> {
  const payments = createPayments(ledger)
  const deferred = createDeferred(ledger)
  const now = Date.now()
  const claims = Array.from({ length: PAYERS }, (_, payer) => claim(now, { wallet: testWallet(1 + (payer % 250)) }))
  let count = 0
  return async () => {
    count += 1
    const like = claims[count % PAYERS]!
    // Signed once: only its id and its nonce have to be new. A buyer signs the nonce of its challenge.
    const nonce = randomHex()
    const authorization = { ...like.signed.authorization, nonce }
    const payment = { ...like, id: randomHex(), challengeNonce: nonce, signed: { ...like.signed, authorization } }
    await deferred.find({ peerId: payment.peerId, agentId: payment.agentId, task: 'task' })
    if ((await payments.claimExposed(payment, now)) === undefined) throw new Error('a new payment was not claimed')
    const owed = { id: payment.id, state: 'owed', attempts: 1, nextAttemptAt: now + 60_000 } as const
    await payments.deliver(owed, exchangeOf(payment, now, { input: 'x'.repeat(1024), output: 'x'.repeat(1024) }), now)
    await payments.save({ id: payment.id, state: 'settled', txHash: randomHex() }, now)
  }
}
