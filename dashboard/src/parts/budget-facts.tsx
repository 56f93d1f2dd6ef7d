import type { Budget } from '../api/types.ts'
import { money } from '../format.ts'
import { Facts, Figure } from './bits.tsx'

export function BudgetFacts({ budget }: { budget: Budget }) {
  const { symbol } = budget
  const limit = (amount: string | null) => (amount === null ? 'no limit' : `${money(amount)} ${symbol}`)
  const left = (amount: string | null) => (amount === null ? 'no limit' : `${money(amount)} left`)
  return (
    <>
      <dl className="figures">
        <Figure
          label="Paid today"
          value={money(budget.paid_today)}
          unit={symbol}
          note={`${money(budget.held_today)} held, ${left(budget.left_today)}`}
        />
        <Figure
          label="Paid this month"
          value={money(budget.paid_month)}
          unit={symbol}
          note={`${money(budget.held_month)} held, ${left(budget.left_month)}`}
        />
      </dl>
      <Facts
        rows={[
          ['Per call', limit(budget.per_call)],
          ['Per seller', limit(budget.per_seller)],
          ['Per day', limit(budget.per_day)],
          ['Per month', limit(budget.per_month)],
          [
            'Asks you',
            budget.auto_approve_below === null ? 'never' : `from ${money(budget.auto_approve_below)} ${symbol} on`,
          ],
          budget.allow.length > 0 && ['Only from', `${budget.allow.length} sellers or agents`],
          budget.deny.length > 0 && ['Never from', `${budget.deny.length} sellers or agents`],
        ]}
      />
    </>
  )
}
