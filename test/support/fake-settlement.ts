import type { AuthorizationUse, Simulation, Transfer } from '../../src/chain/chain.ts'
import type { PaymentChain } from '../../src/payments/chain-verdict.ts'
import type { Facilitator, SettleOutcome } from '../../src/payments/facilitator.ts'
import type { SignedAuthorization } from '../../src/schema/payment.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { randomHex } from './payments.ts'

/** What happens in one call of `settle`: whether the money moves, and the answer in either case. */
export type Settling = { moves: boolean; answer: SettleOutcome | 'the transaction' | 'hang' }

export const unclear: Settling = { moves: false, answer: { kind: 'unclear', reason: 'no answer' } }
const asItShould: Settling = { moves: true, answer: 'the transaction' }

/**
 * A facilitator and its chain in memory: the ports of settlement.
 *
 * The chain holds the truth. The facilitator answers as the test tells it to.
 */
export class FakeSettlement {
  /** The outcome of the next calls of `settle`, in order. `usual` applies after the last. */
  readonly plan: Settling[] = []
  usual: Settling = asItShould
  /** Nonces in the order of their settlement attempts. */
  readonly attempts: Hex[] = []
  /** While true, the RPC does not answer. */
  chainIsDown = false
  /** The time of the newest block. */
  blockTimeMs = Number.MAX_SAFE_INTEGER
  readonly #uses = new Map<string, AuthorizationUse>()

  readonly facilitator: Facilitator = {
    settle: async ({ authorization }, _requirements, signal) => {
      this.attempts.push(authorization.nonce as Hex)
      const { moves, answer } = this.plan.shift() ?? this.usual
      const txHash = moves ? this.pay(authorization) : randomHex()
      if (answer === 'hang') return await hung(signal)
      return answer === 'the transaction' ? { kind: 'settled', txHash } : answer
    },
    supports: async () => true,
    close: async () => {},
  }

  readonly chain: PaymentChain = {
    authorizationUse: async (_asset, from, nonce) => {
      if (this.chainIsDown) throw new Error('the RPC is down')
      return this.#uses.get(keyOf(from, nonce)) ?? { state: 'unused' }
    },
    authorizationAt: async (asset, from, nonce) => ({
      use: await this.chain.authorizationUse(asset, from, nonce),
      timeMs: this.blockTimeMs,
    }),
    transferOf: async (txHash) => {
      if (this.chainIsDown) throw new Error('the RPC is down')
      for (const use of this.#uses.values()) {
        if (use.state === 'used' && use.txHash === txHash) return (use as { transfer: Transfer }).transfer
      }
      return undefined
    },
    blockTimeMs: async () => {
      if (this.chainIsDown) throw new Error('the RPC is down')
      return this.blockTimeMs
    },
  }

  /** USDC's answer to a transfer, without a check of the balance: this fake has no balances. */
  async simulateTransfer(_asset: Hex, { authorization }: SignedAuthorization): Promise<Simulation> {
    if (this.chainIsDown) throw new Error('the RPC is down')
    const { from, nonce } = authorization
    const isUnused = this.useOf(from, nonce).state === 'unused'
    return isUnused ? { kind: 'accepted' } : { kind: 'refused', reason: 'authorization is used or canceled' }
  }

  /** Moves the money on the chain, once. @returns the transaction that moved it */
  pay({ from, to, value, nonce }: SignedAuthorization['authorization']): Hex {
    const use = this.useOf(from, nonce)
    if (use.state === 'used' && use.txHash !== undefined) return use.txHash
    const txHash = randomHex()
    if (use.state === 'unused') this.setUse(from, nonce, { state: 'used', txHash, transfer: { to, value } })
    return txHash
  }

  useOf(from: string, nonce: string): AuthorizationUse {
    return this.#uses.get(keyOf(from, nonce)) ?? { state: 'unused' }
  }

  setUse(from: string, nonce: string, use: AuthorizationUse): void {
    this.#uses.set(keyOf(from, nonce), use)
  }
}

function keyOf(from: string, nonce: string): string {
  return `${from}|${nonce}`.toLowerCase()
}

/** Fails like an HTTP call without an answer. */
function hung(signal: AbortSignal): Promise<SettleOutcome> {
  return new Promise((resolve) => {
    const end = () => resolve({ kind: 'unclear', reason: `no answer from the facilitator: ${signal.reason}` })
    if (signal.aborted) end()
    else signal.addEventListener('abort', end, { once: true })
  })
}
