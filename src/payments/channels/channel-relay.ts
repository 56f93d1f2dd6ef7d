import { batchSettlementAddress } from '../../chain/batch-settlement.ts'
import type { Chain } from '../../chain/chain.ts'
import { type Clock, monotonicOf } from '../../lib/clock.ts'
import { CodedError, reasonOf } from '../../lib/errors.ts'
import { faultPoint } from '../../lib/fault-point.ts'
import { doubledMs } from '../../lib/retry.ts'
import { pause } from '../../lib/wait.ts'
import { networkText } from '../../schema/network-kind.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { Asset } from '../assets.ts'
import type { Call } from '../call.ts'
import type { ChannelFacilitator } from '../facilitator.ts'
import type { Sender } from '../sender.ts'
import { readQuantity } from '../transaction-error.ts'
import { bodyOf, type ChannelStep, dataOf } from './channel-steps.ts'

/** Limit of one request to a facilitator. It may wait until its transaction is mined. */
const FACILITATOR_MS = 35_000
/** How long the chain may take to show a step that somebody says to have sent. Then another way is tried. */
const SHOWN_MS = 10_000
const LOOKS = { firstMs: 50, mostMs: 1_000 }
/** How long the answer of a facilitator about the schemes that it takes is used. */
const SUPPORT_KEPT_MS = 10 * 60_000
const SUPPORT_LIMIT_MS = 5_000
/** Gas of a refund with a claim, the largest step of one channel, with room. */
const GAS = 300_000n

type RelayDeps = {
  asset: Asset
  clock: Clock
  chain: Pick<Chain, 'request'>
  facilitators: readonly ChannelFacilitator[]
  /** The account of this node, and the only sender of its transactions. */
  own: { address: Hex; sender(): Promise<Pick<Sender, 'send'>> }
  /** Overrides SHOWN_MS and FACILITATOR_MS. */
  waits?: { shownMs?: number; facilitatorMs?: number } | undefined
}

/** Sends signed steps to the contract: by a facilitator that takes channels, else by own transactions. */
export interface ChannelRelay {
  /** Why channels cannot be offered here, for people. Undefined: they can. @throws ChainError */
  trouble(signal: AbortSignal): Promise<string | undefined>
  /**
   * Sends a step until the chain shows it, in each way once. What anybody answers decides only what is tried next.
   *
   * @param isDone asks the chain
   * @returns the transaction that somebody names. It is for people: nothing depends on it
   * @throws CodedError CHANNEL_STEP_FAILED if the chain does not show it, ChainError, the signal's reason
   */
  send(
    step: ChannelStep,
    isDone: (signal: AbortSignal) => Promise<boolean>,
    signal: AbortSignal,
  ): Promise<Hex | undefined>
}

/** Found in the lane of transactions: the step has happened in the meantime. */
class AlreadyDone extends Error {}

export function createChannelRelay(deps: RelayDeps): ChannelRelay {
  const { asset, chain, facilitators, own, clock } = deps
  const { shownMs = SHOWN_MS, facilitatorMs = FACILITATOR_MS } = deps.waits ?? {}
  const known = new Map<ChannelFacilitator, { supports: boolean; at: number }>()

  /** @returns undefined if it does not answer, and never did */
  async function supports(one: ChannelFacilitator, signal: AbortSignal): Promise<boolean | undefined> {
    const before = known.get(one)
    if (before !== undefined && monotonicOf(clock) - before.at < SUPPORT_KEPT_MS) return before.supports
    const limit = AbortSignal.any([signal, AbortSignal.timeout(SUPPORT_LIMIT_MS)])
    try {
      const answer = await one.supports(asset.network, limit)
      known.set(one, { supports: answer, at: monotonicOf(clock) })
      return answer
    } catch {
      signal.throwIfAborted()
      // It may be away for a moment only: what it said before holds.
      return before?.supports
    }
  }

  /** Looks at the chain until it shows the step, for at most `limitMs`. */
  async function isShown(isDone: (signal: AbortSignal) => Promise<boolean>, limitMs: number, signal: AbortSignal) {
    const end = performance.now() + limitMs
    for (let looks = 1; ; looks++) {
      if (await isDone(signal)) return true
      const waitMs = doubledMs(looks, LOOKS)
      if (performance.now() + waitMs > end) return false
      await pause(waitMs, signal)
      signal.throwIfAborted()
    }
  }

  async function sendOwn(step: ChannelStep, isDone: (signal: AbortSignal) => Promise<boolean>, signal: AbortSignal) {
    const make = async (): Promise<Call> => {
      if (await isDone(signal)) throw new AlreadyDone()
      return { purpose: `channel ${step.type}`, to: batchSettlementAddress, data: dataOf(step) }
    }
    const sender = await own.sender()
    try {
      return (await sender.send(make, signal)).hash
    } catch (error) {
      if (error instanceof AlreadyDone) return undefined
      throw error
    }
  }

  return {
    async trouble(signal) {
      const code = await chain.request('eth_getCode', [batchSettlementAddress, 'latest'], signal)
      const where = networkText(asset.network)
      if (typeof code !== 'string' || code.length <= 2) {
        return `${where} has no contract for payment channels at ${batchSettlementAddress}: this node offers none`
      }
      let isUnanswered = false
      for (const one of facilitators) {
        const answer = await supports(one, signal)
        if (answer === true) return undefined
        isUnanswered ||= answer === undefined
      }
      const [price, balance] = await Promise.all([
        chain.request('eth_gasPrice', [], signal).then(readQuantity),
        chain.request('eth_getBalance', [own.address, 'latest'], signal).then(readQuantity),
      ])
      if (balance > price * GAS) return undefined
      const wallet = `the wallet ${own.address} has too little ETH for gas: this node offers no channels`
      if (isUnanswered) {
        const why = `a facilitator of this node does not answer whether it takes payment channels on ${where}, and ${wallet}`
        return `${why} until it answers; send the wallet some ETH, or use another facilitator`
      }
      const why = `no facilitator of this node takes payment channels on ${where}, and ${wallet}`
      return `${why}; send the wallet some ETH, or set a facilitator that takes batch-settlement`
    },

    async send(step, isDone, signal) {
      const reasons: string[] = []
      faultPoint(`seller:${step.type}-signed`)
      for (const one of facilitators) {
        if (!(await supports(one, signal))) continue
        const limit = AbortSignal.any([signal, AbortSignal.timeout(facilitatorMs)])
        const outcome = await one.settle(bodyOf(step, asset), limit)
        faultPoint(`seller:${step.type}-sent`)
        signal.throwIfAborted()
        const isSent = outcome.kind === 'settled' || outcome.kind === 'unclear'
        const named = outcome.kind === 'settled' ? outcome.txHash : undefined
        if (await isShown(isDone, isSent ? shownMs : 0, signal)) return named
        reasons.push(outcome.kind === 'settled' ? 'the facilitator says that it is done' : outcome.reason)
      }
      try {
        const hash = await sendOwn(step, isDone, signal)
        faultPoint(`seller:${step.type}-sent`)
        if (await isShown(isDone, shownMs, signal)) return hash
        reasons.push('this node has sent it')
      } catch (error) {
        signal.throwIfAborted()
        reasons.push(reasonOf(error))
      }
      throw new CodedError('CHANNEL_STEP_FAILED', `the chain does not show the ${step.type}: ${reasons.join('; ')}`)
    },
  }
}
