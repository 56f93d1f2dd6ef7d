import { isDeepStrictEqual } from 'node:util'
import { batchSettlementAddress, type ChannelReader, channelCalls } from '../../chain/batch-settlement.ts'
import type { Chain } from '../../chain/chain.ts'
import type { Clock } from '../../lib/clock.ts'
import { reasonOf } from '../../lib/errors.ts'
import { faultPoint } from '../../lib/fault-point.ts'
import type { Call } from '../../payments/call.ts'
import { type ExitStep, nextExitStep } from '../../payments/channels/buyer-exit.ts'
import type { Sender } from '../../payments/sender.ts'
import { usdc } from '../../schema/amount.ts'
import type { BuyerChannels } from '../../store/buyer-channels.ts'
import type { ExitTrouble } from '../../store/leaving.ts'
import { askRefund, type FundsDeps } from './ask-funds.ts'
import type { ChannelLine } from './channel-line.ts'
import { lookForMissing, type MissingDeps } from './missing.ts'

/** How long calls under way are waited for. After it, what they need stays, and the rest is taken out. */
const CALLS_MS = 15 * 60_000
/** How long a seller is asked for a refund before this node takes its money out by itself. */
const ASK_MS = 10 * 60_000
/** How often a seller is asked while a withdrawal runs, or cannot begin. */
const ASK_AGAIN_MS = 10 * 60_000
/** A withdrawal is looked at this often. Its end may be moved by a reorganization. */
const DELAY_LOOK_MS = 60_000
const LOOK_MS = 1_000
/** The chain shows the end of a step at once, or its RPC lags. */
const NEXT_MS = 200
/** In characters. */
const REASON_LENGTH_MAX = 300

export type ExitStepDeps = FundsDeps &
  MissingDeps & {
    clock: Clock
    store: Pick<BuyerChannels, 'seen' | 'noteExit' | 'close'>
    reader: Pick<ChannelReader, 'channels'>
    chain: Pick<Chain, 'blockTimeMs'>
    /** The only sender of this account. @throws CodedError CHAIN_UNAVAILABLE */
    sender(): Promise<Pick<Sender, 'send'>>
  }

/** When to look at the channel again. `trouble`: the step failed. `closed`: there is no next step. */
export type ExitTurn = {
  inMs: number
  hasAsked?: boolean
  trouble?: Omit<ExitTrouble, 'count'>
  closed?: { dust: bigint }
}

/** Found in the lane of transactions: the step has happened in the meantime, or is not due any more. */
class StepOver extends Error {}

/**
 * Does what is next about a channel that is left, as the chain has it now.
 *
 * @param sinceAskMs how long ago this process has asked the seller
 * @throws ChainError, StoreError, or the reason of `signal`
 */
export async function takeExitStep(
  line: ChannelLine,
  { sinceAskMs }: { sinceAskMs: number },
  deps: ExitStepDeps,
  signal: AbortSignal,
): Promise<ExitTurn> {
  // What became of a deposit is looked at with the others: see deposits.ts.
  if (line.deposit !== undefined) return { inMs: LOOK_MS }
  const step = await look(line, deps, signal)
  switch (step.kind) {
    case 'wait': {
      if (step.for === 'calls') return { inMs: LOOK_MS }
      const inMs = Math.min(step.leftMs, DELAY_LOOK_MS)
      if (!isAsked(line) || sinceAskMs < ASK_AGAIN_MS) return { inMs }
      // It takes the place of the withdrawal, at once.
      const { trouble } = await ask(line, deps, signal)
      return { inMs: trouble === undefined ? NEXT_MS : inMs, hasAsked: true }
    }
    case 'ask':
      return ask(line, deps, signal)
    case 'begin':
    case 'end': {
      const turn = await withdraw(line, step.kind, deps, signal)
      if (turn.trouble === undefined || !isAsked(line) || sinceAskMs < ASK_AGAIN_MS) return turn
      // Mostly this account has no ETH. The seller may be back, or may have time now.
      const { trouble } = await ask(line, deps, signal)
      return trouble === undefined ? { inMs: NEXT_MS, hasAsked: true } : { ...turn, hasAsked: true }
    }
    case 'closed': {
      const { missing, isWhole } = await lookForMissing(line, deps, signal)
      // An RPC that shows no log at all contradicts nothing.
      if (missing > 0n && isWhole) return { inMs: 0, trouble: { step: 'withdrawal', reason: missingText(missing) } }
      await deps.store.close(line.id, deps.clock.now())
      line.closedAt = deps.clock.now()
      faultPoint('buyer:channel-closed')
      return { inMs: 0, closed: { dust: step.dust } }
    }
  }
}

/** Reads the channel, and what follows. What is new is on disk when it resolves. */
async function look(line: ChannelLine, deps: ExitStepDeps, signal: AbortSignal): Promise<ExitStep> {
  const { clock, store, reader, chain } = deps
  const { leaving } = line
  // The time first: a withdrawal that is read after it cannot have begun later than it says.
  const chainTimeMs = await chain.blockTimeMs(signal)
  const onChain = (await reader.channels([line.id], signal))[0]!
  const now = clock.now()
  if (!isDeepStrictEqual(onChain, line.channel.onChain)) await store.seen(line.id, { onChain, moved: line.moved }, now)
  line.seen(onChain)
  const isWithin = (from: number, limitMs: number) => Math.abs(now - from) < limitMs
  const mayAsk = isAsked(line) && isWithin(leaving!.askedAt ?? now, ASK_MS)
  return nextExitStep({
    channel: line.channel,
    isQuiet: line.isQuiet,
    mayWait: isWithin(leaving!.since, CALLS_MS),
    ...{ mayAsk, chainTimeMs, isExact: leaving!.way === 'withdraw' },
  })
}

/** True if the seller is asked for a refund. */
function isAsked({ leaving }: ChannelLine): boolean {
  return leaving?.way === 'refund'
}

async function ask(line: ChannelLine, deps: ExitStepDeps, signal: AbortSignal): Promise<ExitTurn> {
  const { store, clock } = deps
  if (line.leaving!.askedAt === undefined) {
    const askedAt = clock.now()
    await store.noteExit(line.id, { askedAt }, askedAt)
    line.leaving = { ...line.leaving!, askedAt }
  }
  try {
    await askRefund(line, deps, signal)
  } catch (error) {
    signal.throwIfAborted()
    return {
      inMs: 0,
      hasAsked: true,
      trouble: { step: 'refund', reason: `the seller gives no refund: ${textOf(error)}` },
    }
  }
  faultPoint('buyer:refund-answered')
  const step = await look(line, deps, signal)
  if (step.kind !== 'ask') return { inMs: NEXT_MS, hasAsked: true }
  const reason = 'the seller says that it has given a refund, and the chain does not show all of it'
  return { inMs: 0, hasAsked: true, trouble: { step: 'refund', reason } }
}

/** Sends a transaction of this account, unless the chain shows in its turn that it is not due any more. */
async function withdraw(
  line: ChannelLine,
  kind: 'begin' | 'end',
  deps: ExitStepDeps,
  signal: AbortSignal,
): Promise<ExitTurn> {
  const { config } = line.channel
  const make = async (): Promise<Call> => {
    const step = await look(line, deps, signal)
    if (step.kind !== kind) throw new StepOver()
    const data =
      step.kind === 'begin' ? channelCalls.initiateWithdraw(config, step.amount) : channelCalls.finalizeWithdraw(config)
    return { purpose: `${kind} the withdrawal from channel ${line.id}`, to: batchSettlementAddress, data }
  }
  try {
    await (await deps.sender()).send(make, signal)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof StepOver) return { inMs: NEXT_MS }
    return { inMs: 0, trouble: { step: 'withdrawal', reason: textOf(error) } }
  }
  faultPoint(kind === 'begin' ? 'buyer:withdrawal-begun' : 'buyer:withdrawal-ended')
  return { inMs: NEXT_MS }
}

function missingText(missing: bigint): string {
  const shown = `the RPC shows ${usdc(missing)} less in the channel than was put in, and nothing by which it left`
  return `${shown}: check it with stoa doctor, or use another RPC`
}

/** The text of a seller, or of an RPC, as a part of ours. */
function textOf(error: unknown): string {
  return reasonOf(error).slice(0, REASON_LENGTH_MAX)
}
