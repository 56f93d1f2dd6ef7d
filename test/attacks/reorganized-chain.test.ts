import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { type Facilitator as DevFacilitator, startFacilitator } from '../../devnet/facilitator.ts'
import { createChain } from '../../src/chain/chain.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createFacilitator } from '../../src/payments/facilitator.ts'
import { createWallet } from '../../src/payments/wallet.ts'
import { HandClock } from '../support/hand-clock.ts'
import { bearable, p99 } from '../support/honest-calls.ts'
import { toNextStep } from '../support/next-step.ts'
import { randomHex, requirements, signed, usdc } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { base64, TestSeller, told } from '../support/x402-seller.ts'

/* T13: the chain takes back what it has shown. The chain and the facilitators are real. */

let devnet: Devnet
let second: DevFacilitator
beforeEach(async () => {
  devnet = await startDevnet()
  // One that has not seen the payment: a facilitator remembers what it has settled.
  second = await startFacilitator({ rpcUrl: devnet.rpcUrl })
  await devnet.chain.fundGas(second.address)
})
afterEach(async () => {
  await second.stop()
  await devnet.stop()
})

test('a settlement that a reorganization takes back is found before the window ends, and paid; nobody waits for that', {
  retry: 2,
}, async () => {
  const [wallet, payee] = [createWallet(randomHex(), usdc), createWallet(randomHex(), usdc)]
  await devnet.fund(wallet.address, 1_000_000n)
  await devnet.chain.mine()
  const options = { network: usdc.network, asset: usdc.address, rpcUrl: devnet.rpcUrl, timeoutMs: 30_000 }
  const chain = createChain(options, { logger: silentLogger })
  const facilitators = [devnet, { facilitatorUrl: second.url }].map(({ facilitatorUrl: url }) =>
    createFacilitator({ url }),
  )
  let asked = facilitators[0]!
  const clock = new HandClock(systemClock.now())
  const seller = await new TestSeller({
    ...{ clock, chain, funds: chain, payTo: payee.address, attemptTimeoutMs: 5_000 },
    facilitator: { ...asked, settle: (...payment) => asked.settle(...payment) },
  }).start()
  const honest = await seller.connect('honest')
  const call = async () =>
    expect(told(await honest.request({ resource: 'free', body: base64('hello') }))).toBe('re: hello')
  const reorganize = async () => {
    const before = await devnet.chain.client.snapshot()
    const asks = requirements({ payTo: payee.address })
    const { envelope, paymentId } = signed(clock.now(), { wallet, requirements: asks })
    const peer = await seller.connect()
    expect(told(await peer.request({ payment: envelope, body: base64('task') }))).toBe('re: task')
    await until(async () => (await seller.payments.get(paymentId))?.state === 'settled' || toNextStep(seller))
    expect(await devnet.chain.balanceOf(payee.address)).toBe(10_000n)

    await devnet.chain.client.revert({ id: before })
    asked = facilitators[1]!
    expect(await devnet.chain.balanceOf(payee.address)).toBe(0n)
    clock.set((await seller.payments.nextLookAt())!)
    await until(async () => (await seller.payments.get(paymentId))?.state === 'owed')
    expect(seller.exposure.total).toBe(10_000n)
    await until(async () => (await seller.payments.get(paymentId))?.state === 'settled' || toNextStep(seller))
    expect(clock.now()).toBeLessThan(Number(envelope.payload!.authorization.validBefore) * 1000)
    expect(await devnet.chain.balanceOf(payee.address)).toBe(10_000n)
  }
  try {
    await p99(call, 20)
    const quiet = Math.min(await p99(call, 100), await p99(call, 100))
    const reorganizing = reorganize()
    const beside = await p99(call, 100, reorganizing)
    await reorganizing
    expect(beside).toBeLessThan(bearable(quiet))
  } finally {
    await seller.stop()
    await Promise.all(facilitators.map((facilitator) => facilitator.close()))
  }
})
