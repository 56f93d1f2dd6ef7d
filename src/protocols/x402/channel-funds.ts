import { channelCallId } from '../../payments/channels/call-id.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { X402Message } from '../../schema/x402.ts'
import { PeerError } from '../peer-error.ts'
import { asPeerError, channelPaymentOf, channelsOf } from './channel-sale.ts'
import type { Exchange, X402ServerDeps } from './exchange.ts'
import { respond } from './messages.ts'

/** Answers `method: "deposit"` and `method: "refund"`: they run no agent and cost nothing. */
export async function answerChannelFunds(
  { method, payment: envelope, resource }: X402Message<'x402.request'>,
  exchange: Exchange,
  deps: X402ServerDeps,
): Promise<void> {
  const { takesNew } = channelsOf(deps)
  if (envelope === null) throw new PeerError('PAYMENT_REQUIRED', `to ask for a ${method}, send the channel`)
  const payment = channelPaymentOf(envelope, deps)
  const { config, voucher, deposit } = payment
  if (method === 'deposit' && !takesNew) throw new PeerError('PAYMENT_INVALID', 'this seller takes no new deposits')
  const { channelFunds } = deps
  if (channelFunds === undefined) {
    throw new PeerError('PAYMENT_INVALID', `this seller sends no ${method}s: send it to the chain yourself`)
  }
  const { peerId, signal } = exchange
  const channelId = voucher.channelId.toLowerCase() as Hex
  const moved = await (async () => {
    if (method === 'refund') return channelFunds.refund({ peerId, channelId, payment }, signal)
    if (deposit === undefined) throw new PeerError('PAYMENT_INVALID', 'there is no deposit in this request')
    return channelFunds.deposit({ peerId, channelId, config, voucher, deposit }, signal)
  })().catch(asPeerError)
  const id = channelCallId(channelId, exchange.correlationId)
  const tokenId = deps.agents.tokenOf(resource) ?? ''
  const answer = { id, tokenId, output: '', txHash: moved.txHash, receipt: undefined }
  await respond(answer, { ...exchange, isWrapped: false }, deps)
}
