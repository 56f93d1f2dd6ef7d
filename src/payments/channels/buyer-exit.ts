import { largest } from '../../lib/bigints.ts'
import { type BuyerChannel, owedAtMost } from './buyer-channel.ts'

/*
 * How a buyer takes its money out of a channel, as a pure function of what the chain shows (ADR-40). It keeps no step of
 * its own on disk: after a crash, a reorganization or a claim in between, the next look gives the next step.
 *
 *   balance = what the seller may claim + what is free
 *
 * Free is what no charge and no call in flight needs. The rest is the seller's, also if it has not claimed it.
 */

/** Less is not worth the transaction of a seller. Sellers refuse it. */
const ASK_MIN = 1_000n
/** Less is not worth the two transactions of a withdrawal, unless the operator wants it. */
const WITHDRAW_MIN = 10_000n

type Exiting = Pick<BuyerChannel, 'onChain' | 'config' | 'charged' | 'inFlight'>

/** What is known of a channel without a deposit under way. */
type ExitView = {
  channel: Exiting
  /** No call is under way, and none is about to be. */
  isQuiet: boolean
  /** Calls under way may still end soon. */
  mayWait: boolean
  /** The seller may still give a refund. */
  mayAsk: boolean
  /** The operator wants each unit, even if its transactions cost more. */
  isExact: boolean
  /** The time of the newest block. The contract knows no other. */
  chainTimeMs: number
}

/** What is to be done next about a channel that is left. Amounts are atomic units. */
export type ExitStep =
  | { kind: 'wait'; for: 'calls' }
  /** A withdrawal runs. The seller may give a refund meanwhile, which takes its place. */
  | { kind: 'wait'; for: 'delay'; leftMs: number }
  /** Ask the seller for what is free. */
  | { kind: 'ask' }
  | { kind: 'begin'; amount: bigint }
  | { kind: 'end' }
  /** Nothing is left to take out but `dust`, which costs more than it is. */
  | { kind: 'closed'; dust: bigint }

export function nextExitStep(view: ExitView): ExitStep {
  const { channel, isQuiet, mayWait, mayAsk, isExact, chainTimeMs } = view
  const endsAtMs = withdrawalEndMs(channel)
  if (endsAtMs !== undefined) {
    const leftMs = endsAtMs - chainTimeMs
    return leftMs > 0 ? { kind: 'wait', for: 'delay', leftMs } : { kind: 'end' }
  }
  if (!isQuiet && mayWait) return { kind: 'wait', for: 'calls' }
  const free = freeForBuyer(channel)
  if (mayAsk && free >= ASK_MIN) return { kind: 'ask' }
  if (free >= (isExact ? 1n : WITHDRAW_MIN)) return { kind: 'begin', amount: free }
  return isQuiet ? { kind: 'closed', dust: free } : { kind: 'wait', for: 'calls' }
}

/** True if a closed channel has something to take out: a reorganization took back its end, or a deposit came late. */
export function hasMoreToTake(channel: Exiting): boolean {
  return channel.onChain.withdrawal !== undefined || freeForBuyer(channel) >= WITHDRAW_MIN
}

/** What no charge and no call in flight needs. */
function freeForBuyer({ onChain, charged, inFlight }: Omit<Exiting, 'config'>): bigint {
  const owed = largest(owedAtMost({ charged, inFlight }), onChain.totalClaimed)
  return largest(onChain.balance - owed, 0n)
}

/** When the withdrawal of a channel can be ended, by the time of the chain. Undefined: none has begun. */
function withdrawalEndMs({ onChain, config }: Pick<Exiting, 'onChain' | 'config'>): number | undefined {
  const { withdrawal } = onChain
  return withdrawal && (withdrawal.initiatedAt + config.withdrawDelay) * 1000
}
