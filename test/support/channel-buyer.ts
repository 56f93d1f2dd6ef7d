import { randomUUID } from 'node:crypto'
import type { ChannelState } from '../../src/chain/batch-settlement.ts'
import { channelId } from '../../src/payments/channel-digests.ts'
import { addressOfPublicKey, secp256k1 } from '../../src/payments/secp256k1.ts'
import { signVoucher } from '../../src/payments/voucher.ts'
import type { ChannelConfig, ChannelPayment } from '../../src/schema/channel.ts'
import type { PaymentEnvelope } from '../../src/schema/payment.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { payTo, randomHex, sellerWallet, testWallet, usdc } from './payments.ts'
import { type Answer, base64, type TestPeer } from './x402-seller.ts'

export const PRICE = 10_000n
const DAY_SECONDS = 86_400
export const channelTerms = { withdrawDelaySecondsMin: DAY_SECONDS } as const

/** The contract of payment channels, as a seller reads it. The test says what the chain shows. */
export class FakeChannels {
  readonly states = new Map<Hex, ChannelState>()
  /** How often the RPC was asked. */
  looks = 0
  /** If set, the RPC fails so. */
  failure: Error | undefined

  async channels(ids: readonly Hex[]): Promise<ChannelState[]> {
    this.looks++
    if (this.failure !== undefined) throw this.failure
    return ids.map((id) => this.states.get(id) ?? state(0n))
  }

  set(id: Hex, balance: bigint, changes: Partial<ChannelState> = {}): void {
    this.states.set(id, { ...state(balance), ...changes })
  }
}

function state(balance: bigint): ChannelState {
  return { balance, totalClaimed: 0n, withdrawal: undefined, refundNonce: 0n }
}

/** A buyer that has one channel to the test's seller, and signs whatever the test wants. */
export class ChannelBuyer {
  readonly key: Uint8Array
  readonly config: ChannelConfig
  readonly id: Hex

  constructor({ seed = 7, changes = {} }: { seed?: number; changes?: Partial<ChannelConfig> } = {}) {
    this.key = Buffer.alloc(32, seed)
    this.config = {
      ...{ payer: testWallet(seed + 1).address, receiver: payTo },
      payerAuthorizer: addressOfPublicKey(secp256k1.publicKey(this.key)),
      receiverAuthorizer: sellerWallet.channelSigner('claims').address,
      ...{ token: usdc.address, withdrawDelay: DAY_SECONDS, salt: randomHex() },
      ...changes,
    }
    this.id = channelId(this.config, usdc.chainId)
  }

  voucher(maxClaimableAmount: bigint, { chainId = usdc.chainId as number, key = this.key } = {}) {
    return signVoucher({ channelId: this.id, maxClaimableAmount }, key, chainId)
  }

  payment(max: bigint, changes: Partial<ChannelPayment> = {}): PaymentEnvelope {
    return {
      ...{ x402_version: 2, scheme: 'batch-settlement', network: usdc.network, server_nonce: 'preemptive' },
      payer: this.config.payer,
      channel: {
        ...{ config: this.config, voucher: this.voucher(max), counted: { total: 0n, seq: 0 }, asked: PRICE },
        ...changes,
      },
    }
  }

  /** Sends a call under a voucher for `max`. */
  send(
    peer: TestPeer,
    max: bigint,
    { task = 'task', id = randomUUID() as string, ...changes }: Call = {},
  ): Promise<void> {
    const payment = this.payment(max, changes)
    const asked = {
      method: 'execute',
      resource: undefined,
      ...peer.message({ body: base64(task), correlation_id: id }),
    }
    return peer.send('x402.request', { ...asked, resource: RESOURCE, payment })
  }

  async call(peer: TestPeer, max: bigint, call: Call = {}): Promise<Answer | undefined> {
    await this.send(peer, max, call)
    return peer.next()
  }
}

type Call = Partial<ChannelPayment> & { task?: string; id?: string }
const RESOURCE = 'paidagent234567paidagent234567aa'

/** What an error says of its channel. */
export function refusal(answer: Answer | undefined): unknown {
  return (answer?.message.channel as { reason?: unknown } | undefined)?.reason
}
