import { ChainError } from '../../chain/rpc.ts'
import { smallest } from '../../lib/bigints.ts'
import { faultPoint } from '../../lib/fault-point.ts'
import { Hold } from '../../lib/hold.ts'
import { channelCallId } from '../../payments/channels/call-id.ts'
import { ChannelRefused, ChannelsBusy, elsewhere } from '../../payments/channels/channel-refused.ts'
import type { CallEnd } from '../../payments/channels/channel-turn.ts'
import type { OpenChannel } from '../../payments/channels/open-channel.ts'
import type { TakenVoucher } from '../../payments/channels/seller-channel.ts'
import type { SellerChannels } from '../../payments/channels/seller-channels.ts'
import { leastToBegin } from '../../payments/channels/stream-steps.ts'
import { isSamePricing } from '../../payments/pricing.ts'
import type { ChannelPayment, Charge, SignedVoucher } from '../../schema/channel.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { X402Message } from '../../schema/x402.ts'
import type { NewExchange } from '../../store/exchanges.ts'
import { isLedgerAway, isUnwritable } from '../../store/store-error.ts'
import { PeerError } from '../peer-error.ts'
import { admit } from './admit.ts'
import type { RunOutcome } from './agent-run.ts'
import {
  asExecutionFailed,
  buyerReason,
  type Caller,
  type Exchange,
  type PaidResult,
  type PaidRunDeps,
  type ServedAgent,
  type X402ServerDeps,
} from './exchange.ts'
import { readTask, respond } from './messages.ts'
import { runOnChannel, type Work } from './metered-run.ts'
import { CHANNEL_SCHEME, isOnChannel, paymentOf } from './proven-payment.ts'
import { signReceipt } from './receipts.ts'
import { answerBought } from './result.ts'
import { beginRun, holdUntil } from './running.ts'

/** After this many calls that a payer did not pay to the end, it must cover its calls from the start. */
const WITHHELD_MAX = 3

type PaidOnChannel = X402Message<'x402.request'> & { payment: PaymentEnvelope }
/** A call on a channel before it is taken. */
type ChannelTask = {
  id: Hex
  payment: ChannelPayment
  input: string
  /** True: a failed run is not stored, and neither is its voucher, which its buyer signs again for its next call. */
  forgetsFailure?: true
}
type Taken = { id: Hex; asked: bigint; channel: OpenChannel; voucher?: TakenVoucher | undefined }
type SoldOnChannel = Omit<PaidResult, 'txHash'> & { charge: Charge }

/**
 * Sells one run on a payment channel (ADR-35): no challenge, and no payment of its own.
 *
 * 1. A known id gets what is stored, and one that runs is waited for.
 * 2. Take the call: its voucher and its channel cover it, and the voucher is on disk.
 * 3. Run.
 * 4. Store the result with its charge: the price, or what was used. A run that failed costs nothing.
 *
 * @throws PeerError: nobody is charged, except after SETTLEMENT_FAILED, when the buyer can ask for the result
 */
export async function answerChannelCall(
  agent: ServedAgent,
  request: PaidOnChannel,
  asked: Exchange,
  deps: X402ServerDeps,
): Promise<void> {
  const channels = channelsOf(deps)
  const payment = channelPaymentOf(request.payment, deps)
  const { input, exchange } = readTask(request.body, agent.id, asked)
  const id = channelCallId(payment.voucher.channelId as Hex, exchange.correlationId)
  const sold = await sellOnChannel(agent, { id, payment, input }, exchange, { ...deps, channels })
  if (sold === undefined)
    return answerBought(await paymentOf(id, { ...asked, resource: agent.id }, deps), exchange, deps)
  await respond({ ...sold, id, tokenId: agent.tokenId, txHash: undefined }, exchange, deps)
  faultPoint('seller:answered')
}

/** The seller's channels. @throws PeerError PAYMENT_INVALID if it takes none */
export function channelsOf({ channels }: Pick<X402ServerDeps, 'channels'>): SellerChannels {
  if (channels === undefined) throw new PeerError('PAYMENT_INVALID', 'this seller takes no payment channels')
  return channels
}

/** @throws PeerError */
export function channelPaymentOf(payment: PaymentEnvelope, { asset }: Pick<X402ServerDeps, 'asset'>): ChannelPayment {
  const { channel, server_nonce: nonce, network } = payment
  if (!isOnChannel(payment) || channel === undefined) {
    throw new PeerError('PAYMENT_INVALID', `a call on a channel needs the scheme ${CHANNEL_SCHEME} and a channel`)
  }
  if (nonce !== 'preemptive') {
    throw new PeerError('PAYMENT_NONCE_MISMATCH', 'a call on a channel must have the server_nonce "preemptive"')
  }
  if (network !== asset.network) throw new PeerError('PAYMENT_INVALID', `this seller is paid on ${asset.network}`)
  return channel
}

type SaleDeps = PaidRunDeps & { channels: SellerChannels }
type ChannelCaller = Caller & Pick<Exchange, 'isDraining'>

/** @returns undefined if the call has ended before: its outcome is stored. @throws PeerError */
export async function sellOnChannel(
  agent: ServedAgent,
  call: ChannelTask,
  caller: ChannelCaller,
  deps: SaleDeps,
): Promise<SoldOnChannel | undefined> {
  const { id } = call
  // Not `runEnd`: all requests that waited for one run would go on before the first of them marks its own.
  for (let run = deps.running.get(id); run !== undefined; run = deps.running.get(id)) await run
  using _running = beginRun(id, deps)
  const isStored = () => deps.payments.has(id)
  const before = deps.channels.owned(call.payment.voucher.channelId)
  const bestBefore = before?.channel.best
  if (await isStored()) return undefined
  if (caller.isDraining?.())
    throw new PeerError('OVERLOADED', 'this seller stops: nothing was charged, ask it again later')
  const allowed = allowedBy(agent, call, caller)
  await refuseAhead(agent)
  using slot = admit(caller.callerDid, deps)
  const wanted = { peerId: caller.peerId, payment: call.payment, asked: allowed.asked }
  // If another process has just charged this call, the channel may have no room for it. Then the call is stored.
  const channel = await deps.channels.take(wanted, caller.signal).catch(async (error: unknown) => {
    if (!(await isStored())) return notTaken(error)
  })
  if (channel === undefined) return undefined
  const taken: Taken = { id, asked: allowed.asked, channel }
  if (call.forgetsFailure === true)
    taken.voucher = { voucher: call.payment.voucher, before: channel === before ? bestBefore : undefined }
  // A failure from here to the run costs nothing and is not stored: the call may be sent again.
  using unrun = new Hold(() => void letGo(taken, caller))
  // Another process may have had the channel in between and have run this call. While this one has it, no other can.
  if (channel !== before && (await isStored())) return undefined
  checkPaysOn(channel, allowed, deps)
  faultPoint('seller:channel-taken')
  await slot.turn(agent.id)
  caller.signal.throwIfAborted()
  unrun.keep()
  const raise: Work['take'] = (voucher, more) => takeMore({ voucher, more, taken }, caller, deps)
  const work = { id, input: call.input, ...allowed, take: raise }
  const { outcome, asked, isCut } = await runOnChannel(agent, work, caller, deps)
  taken.asked = asked
  slot.leave()
  faultPoint('seller:executed')
  if (isCut) noteCut(channel, deps)
  // Awaited, because the call counts as running until its end is stored.
  if (!('failure' in outcome) && outcome.output !== '') return await charge(taken, outcome, caller, deps)
  const failure = 'failure' in outcome ? outcome.failure : new PeerError('EXECUTION_FAILED', 'the agent gave no result')
  const error = buyerReason(failure)
  const failed = { ...outcome.exchange, error }
  if (call.forgetsFailure === true) await forget(taken, failed, caller, deps)
  else await end(taken, { amount: undefined, exchange: failed }, caller, deps)
  faultPoint('seller:channel-failed')
  return asExecutionFailed(failure)
}

/**
 * What is reserved for a call when it begins, and the most that it costs. A buyer that raises its ceiling while output
 * streams begins with less.
 *
 * @throws PeerError if the buyer allows less, or has read other prices
 */
function allowedBy(
  { amount, pricing, streaming }: ServedAgent,
  { payment, input }: ChannelTask,
  { onOutput }: Caller,
): { most: bigint; asked: bigint } {
  const { asked = 0n, pricing: read, grows } = payment
  const most = pricing?.max ?? amount
  const mayGrow = grows === true && onOutput !== undefined && streaming !== 'off'
  const least = mayGrow && pricing !== undefined ? leastToBegin(pricing, input) : most
  if (asked < least) throw tooLittle(least, asked)
  if (read !== undefined && (pricing === undefined || !isSamePricing(read, pricing))) {
    throw new PeerError('PAYMENT_AMOUNT_WRONG', 'the prices of this agent have changed: read its listing again')
  }
  return { most, asked: smallest(asked, most) }
}

/**
 * Refuses an agent that has bought too much for unpaid runs (T6). A single payment would settle before the run. A channel pays
 * after the run. @throws PeerError
 */
async function refuseAhead({ isAhead }: ServedAgent): Promise<void> {
  if ((await isAhead?.()) !== true) return
  const reason = 'this agent has bought for runs that nobody has paid for, and is paid before it runs now'
  throw new PeerError('PAYMENT_INVALID', `${reason}: pay for this call by itself; nothing was charged`)
}

/** @throws PeerError if the payer did not pay on too often: then it covers its calls from their start */
function checkPaysOn(
  { channel }: OpenChannel,
  { asked, most }: { asked: bigint; most: bigint },
  { growth: { withheld } }: SaleDeps,
): void {
  if (asked < most && (withheld.get(channel.config.payer) ?? 0) >= WITHHELD_MAX) throw tooLittle(most, asked)
}

function noteCut({ channel: { config } }: OpenChannel, { growth: { withheld } }: SaleDeps): void {
  withheld.set(config.payer, (withheld.get(config.payer) ?? 0) + 1)
}

function tooLittle(least: bigint, asked: bigint): PeerError {
  return new PeerError('PAYMENT_AMOUNT_WRONG', `this call needs ${least} to begin, and its buyer allows ${asked}`)
}

/** Reserves more for a call that runs, under a voucher that is on disk when it resolves. */
async function takeMore(
  { voucher, more, taken }: { voucher: SignedVoucher; more: bigint; taken: Taken },
  { peerId, signal }: Caller,
  { channels }: SaleDeps,
): Promise<void> {
  // What the buyer has counted came with the call.
  const payment = { voucher, counted: { total: 0n, seq: 0 } }
  const channel = await channels.take({ peerId, payment, asked: more }, signal)
  if (channel === taken.channel) return
  // This process has lost the channel and has it again: the call ended with the first.
  await channel.end({ id: taken.id, peerId, asked: more, stored: undefined })
  throw elsewhere()
}

type Run = Extract<RunOutcome, { output: string }> &
  Required<Pick<NonNullable<CallEnd['stored']>, 'amount'>> &
  Pick<NonNullable<CallEnd['stored']>, 'metered'>

async function charge(
  taken: Taken,
  { output, exchange, receiptForm, amount, metered }: Run,
  caller: Caller,
  deps: SaleDeps,
): Promise<SoldOnChannel> {
  const { id, channel } = taken
  const payer = channel.channel.config.payer as Hex
  const bought = {
    id,
    agentId: exchange.agentId,
    correlationId: caller.correlationId,
    network: deps.asset.network,
    payer,
  }
  const receipt = await signReceipt(bought, { task: exchange.input, result: output }, receiptForm, deps)
  const charged = await end(taken, { amount, metered, exchange: { ...exchange, output, receipt } }, caller, deps)
  faultPoint('seller:channel-charged')
  return { output, receipt, charge: charged! }
}

/** Why a call was not taken. On a full disk it has not begun, and its buyer would ask for its result for minutes. */
function notTaken(error: unknown): never {
  if (!isUnwritable(error)) return asPeerError(error)
  const reason = 'this seller cannot write its ledger now; nothing was charged, ask again later'
  throw new PeerError('OVERLOADED', reason, { cause: error })
}

/** Stores how a call has ended. While the ledger is away, requests for the result wait, and then get it. */
async function end(
  { id, asked, channel, voucher }: Taken,
  stored: NonNullable<CallEnd['stored']>,
  { peerId }: Caller,
  deps: SaleDeps,
): Promise<Charge | undefined> {
  try {
    return await channel.end({ id, peerId, asked, stored, taken: voucher })
  } catch (error) {
    if (isLedgerAway(error)) holdUntil(channel.untilStored(), id, deps.running)
    return asPeerError(error)
  }
}

/** Stores that a run has failed, and nothing of its payment. */
async function forget(taken: Taken, exchange: NewExchange, caller: Caller, deps: SaleDeps): Promise<void> {
  await letGo(taken, caller)
  await deps.exchanges.record(exchange).catch((err: unknown) => {
    deps.logger.warn({ err, agent_id: exchange.agentId }, 'could not store that a run has failed')
  })
}

function letGo({ id, asked, channel, voucher }: Taken, { peerId }: Caller): Promise<unknown> {
  return channel.end({ id, peerId, asked, stored: undefined, taken: voucher }).catch(() => {})
}

/** A refusal as the peer is told it. @throws PeerError, or the error itself */
export function asPeerError(error: unknown): never {
  if (error instanceof ChannelRefused) {
    const refusal = new PeerError('PAYMENT_REQUIRED', error.message, { cause: error })
    refusal.channel = error.statement
    throw refusal
  }
  if (error instanceof ChannelsBusy) throw new PeerError('OVERLOADED', `${error.message}; nothing was charged`)
  if (error instanceof ChainError) {
    throw new PeerError('OVERLOADED', 'this seller cannot read the chain now; nothing was charged, ask again later')
  }
  throw error
}
