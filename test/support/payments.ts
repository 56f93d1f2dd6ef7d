import { randomBytes, randomUUID } from 'node:crypto'
import { assets } from '../../src/payments/assets.ts'
import { createWallet, type Wallet } from '../../src/payments/wallet.ts'
import type { PaymentEnvelope, PaymentRequirements } from '../../src/schema/payment.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import type { NewExchange } from '../../src/store/exchanges.ts'
import type { Claim } from '../../src/store/payments.ts'

export const usdc = assets['eip155:84532']
export const agentId = 'paidagent234567paidagent234567aa'

export function randomHex(bytes = 32): Hex {
  return `0x${randomBytes(bytes).toString('hex')}`
}

/** A test wallet. The same seed gives the same wallet. */
export function testWallet(seed = 1): Wallet {
  return createWallet(`0x${seed.toString(16).padStart(2, '0').repeat(32)}`, usdc)
}

/** The wallet that signs the test seller's receipts and receives its payments. */
export const sellerWallet = testWallet(34)
export const payTo: Hex = sellerWallet.address

/** A seller's payment requirements. The defaults are 0.01 USDC and four minutes for one run. */
export function requirements(changes: Partial<PaymentRequirements> = {}): PaymentRequirements {
  return {
    scheme: 'exact',
    network: usdc.network,
    amount: 10_000n,
    asset: usdc.address,
    payTo,
    maxTimeoutSeconds: 240,
    ...changes,
  }
}

/** A payment that a seller with `requirements` accepts, under a challenge or preemptive. */
export function signed(
  now: number,
  options: {
    wallet?: Wallet
    requirements?: PaymentRequirements
    serverNonce?: Hex | 'preemptive'
    authorizationNonce?: Hex
  } = {},
): { paymentId: Hex; envelope: PaymentEnvelope } {
  const { wallet = testWallet(), serverNonce = 'preemptive' } = options
  const authorizationNonce =
    options.authorizationNonce ?? (serverNonce === 'preemptive' ? randomHex() : (serverNonce as Hex))
  return wallet.authorize(options.requirements ?? requirements(), { serverNonce, authorizationNonce }, now)
}

/** A verified payment in the form that the seller claims. */
export function claim(
  now: number,
  changes: Partial<Claim> & { wallet?: Wallet; authorizationNonce?: Hex } = {},
): Claim {
  const { wallet, authorizationNonce, ...rest } = changes
  const asked = rest.requirements ?? requirements()
  const { paymentId, envelope } = signed(now, {
    requirements: asked,
    ...(wallet && { wallet }),
    ...(authorizationNonce && { authorizationNonce }),
  })
  return {
    id: paymentId,
    agentId,
    peerId: 'buyer',
    correlationId: randomUUID(),
    challengeNonce: undefined,
    requirements: asked,
    signed: envelope.payload!,
    ...rest,
  }
}

/** The exchange that belongs to a payment. */
export function exchangeOf(payment: Claim, now: number, changes: Partial<NewExchange> = {}): NewExchange {
  return {
    agentId: payment.agentId,
    callerId: `did:${payment.peerId}`,
    correlationId: payment.correlationId,
    input: 'task',
    output: 'result',
    paymentId: payment.id,
    createdAt: now,
    durationMs: 1,
    ...changes,
  }
}

/** An executing order and the payment signed for it. */
export function reserved({ paymentId, envelope }: ReturnType<typeof signed>, at: number) {
  const asked = requirements()
  const shared = { agentId: 'bought', sellerId: 'seller' }
  const times = { createdAt: at, updatedAt: at }
  const open = { status: 'executing', task: 'x', correlationId: 'c', output: undefined, error: undefined } as const
  const order = { ...open, ...shared, ...times, id: paymentId, price: asked.amount }
  const until = Number(envelope.payload!.authorization.validBefore)
  const money = { requirements: asked, envelope, amount: asked.amount, validBeforeSeconds: until }
  return { order, reservation: { paymentId, orderId: paymentId, ...shared, ...money } }
}
