import { expect, it } from 'vitest'
import { postJson, signPayment } from '../test/support/signed-payment.ts'
import { startDevnet } from './devnet.ts'

/* This test has its own file, and so its own process. The reference facilitator remembers for 15 minutes, per
   process, that an asset is a contract. It fails on an unreachable chain only before it knows that. */

it('a facilitator without a chain answers and does not crash', async () => {
  const devnet = await startDevnet()
  const parties = { payerKey: devnet.wallets.buyer.privateKey, payTo: devnet.wallets.seller.address }
  const good = await signPayment(parties)
  const forged = await signPayment({ ...parties, alter: (signature) => `0x11${signature.slice(4)}` })
  await devnet.chain.stop()
  for (const { body } of [forged, good]) {
    const { status, body: answer } = await postJson(`${devnet.facilitatorUrl}/settle`, body)
    expect(status === 200 ? answer.success : status).toBeOneOf([false, 500])
  }
  expect((await fetch(`${devnet.facilitatorUrl}/supported`)).ok).toBe(true)
  await devnet.stop()
})
