import { usdc } from '../../schema/amount.ts'
import type { OrderError } from '../../store/order-row.ts'
import type { Spending } from '../../store/workflows.ts'

/** The limits that one more purchase must fit. All amounts are atomic units. */
type Funds = {
  cost: bigint
  /** Price limit of the step. */
  stepMax: bigint | undefined
  /** Price limit of the node for one call. */
  nodeMax: bigint
  /** Budget of the whole workflow. */
  budget: bigint | undefined
  spending: Spending
  /** Expected cost of the steps that have not begun. */
  rest: bigint
}

type Verdict = 'buy' | 'wait' | OrderError

/**
 * Decides whether a step may be bought.
 *
 * `wait`: the step would fit if failed payments that may still be settled were released. A step that would leave too
 * little for the remaining steps is refused, because the workflow could not be completed.
 */
export function judgeFunds({ cost, stepMax, nodeMax, budget, spending, rest }: Funds): Verdict {
  if (stepMax !== undefined && cost > stepMax) {
    return refusal('OVER_PRICE', `it costs ${usdc(cost)} now, and the step may cost ${usdc(stepMax)}`)
  }
  if (cost > nodeMax) {
    return refusal('OVER_PRICE', `it costs ${usdc(cost)} now, and this node pays ${usdc(nodeMax)} for one call`)
  }
  if (budget === undefined || cost === 0n) return 'buy'
  const sure = spending.sure + cost + rest
  if (sure > budget) {
    const reason = `it costs ${usdc(cost)} now, ${usdc(spending.sure)} are paid or held, and the other steps cost ${usdc(rest)}`
    return refusal('OVER_BUDGET', `${reason}: together more than the budget of ${usdc(budget)}`)
  }
  return sure + spending.perhaps > budget ? 'wait' : 'buy'
}

function refusal(code: string, message: string): OrderError {
  return { code, message, retryable: false }
}
