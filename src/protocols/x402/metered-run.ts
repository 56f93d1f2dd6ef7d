import type { Usage } from '../../agents/runtime.ts'
import { smallest } from '../../lib/bigints.ts'
import type { CallEnd } from '../../payments/channels/channel-turn.ts'
import { priceOfUnits, wordsIn } from '../../payments/pricing.ts'
import type { SignedVoucher } from '../../schema/channel.ts'
import type { Pricing } from '../../schema/pricing.ts'
import type { Hex } from '../../schema/primitives.ts'
import { PeerError } from '../peer-error.ts'
import { type RunOutcome, runAgent } from './agent-run.ts'
import type { Caller, PaidRunDeps, ServedAgent } from './exchange.ts'
import { GrowingCall } from './growing-call.ts'
import { Meter } from './meter.ts'
import { PaidOutput } from './paid-output.ts'

/** A call on a channel whose run begins. */
export type Work = {
  id: Hex
  input: string
  /** What is reserved for it so far. Less than its highest cost if its buyer raises the ceiling while the output streams. */
  asked: bigint
  most: bigint
  /** Reserves more of the channel. The voucher is on disk when it resolves. */
  take(voucher: SignedVoucher, more: bigint): Promise<unknown>
}

type Charged = Pick<NonNullable<CallEnd['stored']>, 'metered'> & { amount: bigint }
type Ended = Extract<RunOutcome, { output: string }> & Charged
/** How a run ended, and what is reserved for it at its end. */
type RunEnd = { asked: bigint; outcome: Ended | Extract<RunOutcome, { failure: unknown }>; isCut: boolean }

/** Runs an agent for a call on a channel, and says what it costs: the price, or what it has used. Never throws. */
export async function runOnChannel(agent: ServedAgent, work: Work, caller: Caller, deps: PaidRunDeps): Promise<RunEnd> {
  const { pricing } = agent
  const { id, input, asked, most } = work
  const payment = { id, correlationId: caller.correlationId }
  if (pricing === undefined) {
    const outcome = await runAgent(agent, { payment, input }, caller, deps)
    return { asked, isCut: false, outcome: 'failure' in outcome ? outcome : { ...outcome, amount: most } }
  }
  const meter = new Meter(pricing, input, deps.clock)
  const metered = { ...caller, onUsage: (usage: Usage) => meter.used(usage) }
  if (asked < most) return runGrowing({ agent, pricing, meter }, work, metered, deps)
  meter.start()
  const outcome = await runAgent(agent, { payment, input }, metered, deps)
  meter.pause()
  return { asked, isCut: false, outcome: 'failure' in outcome ? outcome : whole(outcome, pricing, meter) }
}

type MeteredAgent = { agent: ServedAgent; pricing: Pricing; meter: Meter }

/** Runs an agent whose output is paid for as it comes. */
async function runGrowing(
  { agent, pricing, meter }: MeteredAgent,
  { id, input, asked: granted, most, take }: Work,
  caller: Caller,
  deps: PaidRunDeps,
): Promise<RunEnd> {
  const { logger, growth } = deps
  const cutting = new AbortController()
  using paid = new PaidOutput({
    ...{ pricing, meter, granted, waitMs: growth.waitMs },
    show: (text, charged) => void caller.onOutput?.(text, charged),
    cut: () => cutting.abort(),
  })
  const growing = new GrowingCall({
    ...{ peerId: caller.peerId, asked: granted, most, logger, take },
    raised: (asked) => paid.raised(asked),
    stop: () => paid.stop(),
  })
  growth.calls.set(id, growing)
  let outcome: RunEnd['outcome']
  try {
    meter.start()
    const signal = AbortSignal.any([caller.signal, cutting.signal])
    const run = { ...caller, signal, onOutput: (text: string) => paid.push(text) }
    const payment = { id, correlationId: caller.correlationId }
    outcome = await endPaid(await runAgent(agent, { payment, input }, run, deps), paid, { pricing, meter })
  } finally {
    growth.calls.delete(id)
  }
  return { asked: await growing.close(), outcome, isCut: paid.isCut }
}

/** What a run delivers whose output was shown as far as it is paid for. */
async function endPaid(
  outcome: RunOutcome,
  paid: PaidOutput,
  { pricing, meter }: Pick<MeteredAgent, 'pricing' | 'meter'>,
): Promise<RunEnd['outcome']> {
  const { exchange, receiptForm } = outcome
  meter.pause()
  if ('failure' in outcome && !paid.isCut) return outcome
  const isEnded = 'output' in outcome && outcome.isLimited !== true
  if (isEnded && !paid.isCut) {
    const ended = whole(outcome, pricing, meter)
    if (await paid.finish(ended.metered.units)) return ended
    // All was shown, and its buyer did not pay for the rest of what it has cost.
    if (paid.shown === outcome.output) return { ...ended, amount: smallest(ended.amount, paid.granted) }
  }
  if (paid.shown === '') return { exchange, receiptForm, failure: unpaid() }
  const { amount, units } = paid.charge
  // A limit may end the run while its output waits. Its buyer would take what was shown for the whole result.
  const cut = paid.isCut || paid.isWaiting ? { cut: true as const } : {}
  return { exchange, receiptForm, output: paid.shown, amount, metered: { units, ...cut } }
}

function whole(outcome: Extract<RunOutcome, { output: string }>, pricing: Pricing, meter: Meter) {
  const units = meter.units(wordsIn(outcome.output))
  return { ...outcome, amount: priceOfUnits(pricing, units), metered: { units } }
}

function unpaid(): PeerError {
  const reason = 'its buyer did not raise the ceiling in time, and nothing was shown'
  return new PeerError('EXECUTION_FAILED', `the call was not paid for: ${reason}; nothing was charged`)
}
