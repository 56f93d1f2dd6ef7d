import type { Budget } from '../api/types.ts'
import { money } from '../format.ts'

type Span = 'today' | 'month'
const names: Record<Span, string> = { today: 'today', month: 'this month' }

/** The paid and held share of a limit, as a figure with a bar. */
export function BudgetLeft({ budget, over = 'today' }: { budget: Budget; over?: Span }) {
  const left = over === 'today' ? budget.left_today : budget.left_month
  const [paid, held, used] =
    over === 'today'
      ? [budget.paid_today, budget.held_today, budget.spent_today]
      : [budget.paid_month, budget.held_month, budget.spent_month]
  const limit = over === 'today' ? budget.per_day : budget.per_month
  const label = `Budget left ${names[over]}`
  return (
    <div className="figure">
      <dt>{label}</dt>
      <dd>
        {left === null ? (
          <span className="figure-value">no limit</span>
        ) : (
          <>
            <span className="figure-value">{money(left)}</span>
            <span className="unit"> {budget.symbol}</span>
          </>
        )}
        <span className="figure-note">
          {money(paid)} paid and {money(held)} held{limit === null ? '' : ` of ${money(limit)}`}
        </span>
        {limit !== null && <progress className="bar-of" aria-label={label} value={Number(used)} max={Number(limit)} />}
      </dd>
    </div>
  )
}
