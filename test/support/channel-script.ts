import { streamPair } from '@libp2p/utils'
import { largest } from '../../src/lib/bigints.ts'
import { channelId } from '../../src/payments/channel-digests.ts'
import { channelCallId } from '../../src/payments/channels/call-id.ts'
import {
  type Charge,
  chargeCall,
  openAtSeller,
  releaseCall,
  reserveCall,
  type SellerChannel,
  seenOnChain,
  shortageOf,
  takeCount,
  takeVoucher,
} from '../../src/payments/channels/seller-channel.ts'
import { checkVoucher } from '../../src/payments/voucher.ts'
import { FramedStream } from '../../src/protocols/framed-stream.ts'
import { PeerError } from '../../src/protocols/peer-error.ts'
import { readMessage, writeError, writeMessage } from '../../src/protocols/x402/messages.ts'
import type { ChannelStatement } from '../../src/schema/channel.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import type { X402Message } from '../../src/schema/x402.ts'
import { usdc } from './payments.ts'

type Request = X402Message<'x402.request'>
/** What a test changes of an answer. `lost`: the work is done, and the stream ends without an answer. */
type Fault = { lost?: boolean; charge?: (charge: Charge) => Charge | undefined; refuse?: PeerError; deaf?: boolean }

/** A seller that takes one channel, made of the pure rules of a seller. The chain is a number: what was deposited. */
export class ChannelScript {
  readonly price: bigint
  /** Balances on the chain, by channel. */
  readonly chain = new Map<string, bigint>()
  readonly claimed = new Map<string, bigint>()
  readonly withdrawals = new Map<string, { amount: bigint; initiatedAt: number }>()
  readonly channels = new Map<string, SellerChannel>()
  readonly charges = new Map<string, Charge>()
  readonly runs: string[] = []
  readonly requests: Request[] = []
  /** Faults of the next calls, in order. */
  readonly faults: Fault[] = []
  /** True: deposits are taken, and do not reach the chain. */
  isSlow = false
  exact = 0
  /** What the seller does about a request for a refund. Undefined: it refuses. */
  onRefund: ((id: Hex) => void) | undefined

  constructor(price: bigint) {
    this.price = price
  }

  readonly open = async () => {
    const [ours, theirs] = await streamPair({ protocol: '/test' })
    void this.#serve(new FramedStream(theirs)).catch((error: Error) => theirs.abort(error))
    return ours
  }

  /** What the contract would say. */
  readonly reader = {
    channels: async (ids: readonly Hex[]) =>
      ids.map((id) => ({
        balance: this.chain.get(id) ?? 0n,
        totalClaimed: this.claimed.get(id) ?? 0n,
        withdrawal: this.withdrawals.get(id),
        refundNonce: 0n,
      })),
  }

  get highest(): bigint {
    return largest(0n, ...[...this.channels.values()].map(({ best }) => best?.maxClaimableAmount ?? 0n))
  }

  async #serve(stream: FramedStream): Promise<void> {
    const signal = AbortSignal.timeout(60_000)
    for (;;) {
      const message = await readMessage(stream, signal)
      if (message === undefined) return
      if (message.type !== 'x402.request') throw new Error(`the seller got ${message.type}`)
      const request = message.message
      this.requests.push(request)
      try {
        const answer = this.#answer(request)
        if (answer === 'lost') throw new Error('the connection is lost')
        await writeMessage(stream, 'x402.response', answer, signal)
      } catch (error) {
        if (!(error instanceof PeerError)) throw error
        await writeError(stream, error, request.correlation_id, signal)
      }
    }
  }

  #answer(request: Request): X402Message<'x402.response'> | 'lost' {
    const payment = request.payment?.channel
    if (payment === undefined) {
      this.exact++
      throw new PeerError('OVERLOADED', 'this seller is tested on channels')
    }
    const id = payment.voucher.channelId as Hex
    if (request.method === 'deposit') {
      const { config, deposit } = payment
      if (channelId(config!, usdc.chainId) !== id) throw new PeerError('PAYMENT_INVALID', 'another channel')
      if (!this.isSlow && !this.chain.has(id)) this.chain.set(id, deposit!.amount)
      return response(request, id, undefined)
    }
    if (request.method === 'refund') {
      if (this.onRefund === undefined) throw new PeerError('PAYMENT_INVALID', 'this seller gives no refunds')
      this.onRefund(id)
      return response(request, id, undefined)
    }
    const call = channelCallId(id, request.correlation_id)
    const known = this.charges.get(call)
    if (known !== undefined) return response(request, call, known)
    if (request.method === 'result') throw new PeerError('PAYMENT_REQUIRED', 'this seller never saw the call')
    const fault = this.faults.shift() ?? {}
    if (fault.refuse !== undefined) throw fault.refuse
    if (fault.deaf === true) return 'lost'
    let channel = this.channels.get(id)
    if (channel === undefined) {
      if (payment.config === undefined) throw refusal({ reason: 'unknown' })
      channel = openAtSeller(id, payment.config, onChain(this.chain.get(id) ?? 0n))
    }
    channel = seenOnChain(channel, onChain(this.chain.get(id) ?? 0n))
    const verdict = checkVoucher(channel.config, payment.voucher, usdc.chainId)
    if (!verdict.ok) throw refusal({ reason: 'refused' })
    channel = takeCount(takeVoucher(channel, verdict.voucher), payment.counted)
    this.channels.set(id, channel)
    const shortage = shortageOf(channel, this.price)
    if (shortage !== undefined) {
      const { charged: total, seq, best } = channel
      throw refusal({ reason: shortage, counted: { total, seq }, voucher: best })
    }
    channel = reserveCall(channel, this.price)
    this.runs.push(request.correlation_id)
    if (Buffer.from(request.body, 'base64').toString() === 'fail') {
      this.channels.set(id, releaseCall(channel, this.price))
      throw new PeerError('EXECUTION_FAILED', 'the agent failed')
    }
    const charged = chargeCall(channel, { asked: this.price, amount: this.price })
    this.channels.set(id, charged.channel)
    this.charges.set(call, charged.charge)
    if (fault.lost === true) return 'lost'
    return response(request, call, fault.charge === undefined ? charged.charge : fault.charge(charged.charge))
  }
}

const onChain = (balance: bigint) => ({ balance, totalClaimed: 0n, withdrawal: undefined, refundNonce: 0n })

function refusal(statement: ChannelStatement): PeerError {
  const error = new PeerError('PAYMENT_REQUIRED', `the seller does not take the call: ${statement.reason}`)
  error.channel = statement
  return error
}

function response(request: Request, payment_id: Hex, charge: Charge | undefined): X402Message<'x402.response'> {
  const { version, correlation_id } = request
  const body = Buffer.from('result').toString('base64')
  return { version, correlation_id, payment_id, tx_hash: '', body, seller_did: '', seller_token_id: '', charge }
}
