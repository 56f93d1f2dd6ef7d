import type { Budget } from '../api/types.ts'
import { amount } from '../format.ts'
import { Facts } from './bits.tsx'
import { BudgetLeft } from './budget-left.tsx'

export function BudgetFacts({ budget }: { budget: Budget }) {
  const { symbol } = budget
  const limit = (decimal: string | null) => (decimal === null ? 'no limit' : amount(decimal, symbol))
  return (
    <>
      <dl className="figures">
        <BudgetLeft budget={budget} />
        <BudgetLeft budget={budget} over="month" />
      </dl>
      <Facts
        rows={[
          ['Per call', limit(budget.per_call)],
          ['Per seller per day', limit(budget.per_seller)],
          ['Per day', limit(budget.per_day)],
          ['Per month', limit(budget.per_month)],
          [
            'Needs approval',
            budget.auto_approve_below === null ? 'never' : `${amount(budget.auto_approve_below, symbol)} or more`,
          ],
          budget.allow.length > 0 && ['Buys only from', `${budget.allow.length} sellers or agents`],
          budget.deny.length > 0 && ['Never buys from', `${budget.deny.length} sellers or agents`],
        ]}
      />
    </>
  )
}
