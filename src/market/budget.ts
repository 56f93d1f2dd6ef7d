import { type Clock, isoTime } from '../lib/clock.ts'
import { formatAmount, PRICE_ATOMIC_MAX, PRICE_DECIMALS } from '../schema/amount.ts'
import { permits } from '../schema/caller.ts'
import type { Order } from '../store/order-row.ts'
import type { LimitName, Over, SpendingLimits } from '../store/spending.ts'
import type { StoredToken } from '../store/tokens.ts'
import { MarketError } from './market-error.ts'

/** What this node may spend. Amounts are atomic units; undefined: no limit. */
export type BudgetRules = {
  perCall: bigint | undefined
  /** Each per UTC day or month. */
  perSeller: bigint | undefined
  perDay: bigint | undefined
  perMonth: bigint | undefined
}

/** The rules as the configuration gives them. */
export function budgetRules(buyer: { maxPriceAtomic: bigint; dailyBudgetAtomic: bigint }): BudgetRules {
  const { maxPriceAtomic: perCall, dailyBudgetAtomic: perDay } = buyer
  return { perCall, perDay, perSeller: undefined, perMonth: undefined }
}

export type BudgetDeps = {
  clock: Clock
  /** The token while it holds. */
  token(id: string): StoredToken | undefined
}

/** What is to be bought, as the seller asks for it. */
export type Wanted = { agentId: string; sellerId: string; amount: bigint }

/** The operator's rules, asked before every signature. */
export interface Budget {
  rules(): BudgetRules
  /** The most one call may cost, atomic units. */
  perCall(): bigint
  /** Today, in UTC. */
  day(): string
  /** The limits a purchase must fit. @throws MarketError where no amount would do */
  limitsFor(order: Pick<Order, 'id' | 'tokenId'>, wanted: Wanted): SpendingLimits
}

export function createBudget(configured: BudgetRules, { clock, token }: BudgetDeps): Budget {
  const rules = configured

  function tokenOf(tokenId: string): StoredToken {
    const held = token(tokenId)
    if (held === undefined) {
      throw new MarketError('TOKEN_ENDED', 'the token it was ordered with has expired or was revoked')
    }
    if (permits(held.scope, 'spend')) return held
    const fix = 'ask the operator for one with the scope spend (stoa token create)'
    throw new MarketError('SCOPE_TOO_LOW', `the token ${held.name} may not pay, and this agent is not free: ${fix}`)
  }

  return {
    rules: () => rules,
    perCall: () => rules.perCall ?? PRICE_ATOMIC_MAX,
    day: () => isoTime(clock.now()).slice(0, 10),
    limitsFor({ tokenId }, { amount }) {
      const { perCall, perDay, perMonth, perSeller } = rules
      const held = tokenId === undefined ? undefined : tokenOf(tokenId)
      if (perCall !== undefined && amount > perCall) {
        const most = `the budget allows ${usdc(perCall)} a call`
        throw new MarketError('OVER_PRICE', `the seller asks for ${usdc(amount)}, ${most} (--max-price)`)
      }
      return { day: perDay, month: perMonth, seller: perSeller, 'token day': held?.perDay, token: held?.budget }
    },
  }
}

const limitTexts: Record<LimitName, { what: string; fix: string }> = {
  day: { what: 'the daily budget', fix: 'raise --daily-budget or wait' },
  month: { what: 'the monthly budget', fix: 'raise it (stoa budget) or wait' },
  seller: { what: 'the daily budget for one seller', fix: 'raise it (stoa budget) or wait' },
  token: { what: 'the budget of this token', fix: 'ask the operator for another token' },
  'token day': { what: 'the daily budget of this token', fix: 'wait, or ask the operator for another token' },
}

/** Why an amount is not signed for. */
export function overBudget(amount: bigint, { over, spent, max }: Over, day: string): MarketError {
  const { what, fix } = limitTexts[over]
  const used = `${usdc(spent)} of ${usdc(max)} are spent or reserved on ${day} (UTC)`
  return new MarketError('OVER_BUDGET', `${usdc(amount)} do not fit ${what}: ${used}; ${fix}`)
}

export function usdc(amount: bigint): string {
  return `${formatAmount(amount, PRICE_DECIMALS)} USDC`
}
