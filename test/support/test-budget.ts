import { type Budget, createBudget } from '../../src/buying/budget.ts'
import { type BudgetRules, budgetRules, createRulesStore } from '../../src/buying/budget-rules.ts'
import type { Clock } from '../../src/lib/clock.ts'
import type { Purchases } from '../../src/store/purchases.ts'
import { usdc } from './payments.ts'

/** The real budget with rules of the test. It keeps changed rules in memory. */
export function testBudget(
  rules: Partial<BudgetRules>,
  deps: { clock: Clock; purchases: Pick<Purchases, 'spendingOn'> } & Partial<Parameters<typeof createBudget>[1]>,
): Budget {
  const configured = budgetRules({ maxPriceAtomic: 1_000_000n, dailyBudgetAtomic: 5_000_000n })
  let text = JSON.stringify(deps.stored ?? {})
  const texts = {
    load: async () => text,
    async change(edit: (text: string) => string) {
      text = edit(text)
      return text
    },
  }
  return createBudget(
    { ...configured, ...rules },
    {
      asset: usdc,
      store: createRulesStore(texts),
      stored: {},
      ...deps,
    },
  )
}
