import { isDeepStrictEqual } from 'node:util'
import { type Clock, utcDay } from '../lib/clock.ts'
import { createLane } from '../lib/lane.ts'
import { MarketError } from '../listings/market-error.ts'
import { didOfPeer } from '../p2p/did.ts'
import type { Asset } from '../payments/assets.ts'
import { PRICE_ATOMIC_MAX, usdc } from '../schema/amount.ts'
import type { BudgetRecord, ChangeBudget } from '../schema/budget.ts'
import { permits } from '../schema/caller.ts'
import { networkKind } from '../schema/network-kind.ts'
import type { Order } from '../store/order-row.ts'
import type { Purchases } from '../store/purchases.ts'
import type { Standing } from '../store/reserve.ts'
import type { LimitExceeded, LimitName, SpendingLimits } from '../store/spending.ts'
import type { StoredToken } from '../store/tokens.ts'
import {
  amountsOf,
  type BudgetRules,
  effectiveRules,
  type RulesStore,
  readRules,
  type StoredRules,
} from './budget-rules.ts'
import { isValid } from './tokens.ts'
import { namedOnWeb, namesOnWeb } from './web/seller-names.ts'

type BudgetDeps = {
  clock: Clock
  asset: Pick<Asset, 'network' | 'address' | 'symbol'>
  store: RulesStore
  /** What the store has held at the start. */
  stored: StoredRules
  purchases: Pick<Purchases, 'spendingOn'>
  /** Called when the rules have changed. */
  changed?(): void
}

type OrderOwner = Pick<Order, 'id' | 'tokenId'>
/** A purchase, as the seller asks for it. */
type SpendingRequest = { agentId: string; sellerId: string; amount: bigint }

/** What a purchase must fit: the operator's rules (budget-rules.ts) and its token's limits. Checked before signing. */
export interface Budget {
  rules(): BudgetRules
  /** Highest price of one call, in atomic units. */
  perCall(): bigint
  /** True if the operator's rules allow this seller and agent. */
  allows(parties: Pick<SpendingRequest, 'agentId' | 'sellerId'>): boolean
  /** The current UTC day. */
  day(): string
  /**
   * Returns the limits that a purchase must fit, with what the ledger knows of its owner. Reads no ledger itself.
   *
   * @throws MarketError if no limit could allow it: SELLER_NOT_ALLOWED, OVER_PRICE, TOKEN_ENDED, SCOPE_TOO_LOW
   */
  limitsFor(order: OrderOwner, wanted: SpendingRequest, standing: Omit<Standing, 'approved'>): SpendingLimits
  /** Returns why a purchase needs an approval that it does not have. */
  approvalFor(wanted: Pick<SpendingRequest, 'amount'>, standing?: Omit<Standing, 'token'>): string | undefined
  view(): Promise<BudgetRecord>
  /** Reads the stored rules, because another process has changed them. */
  refresh(): Promise<void>
  /** Changes the rules at once, also for orders that wait. */
  change(change: ChangeBudget): Promise<BudgetRecord>
}

/** Why the rules do not allow a seller or an agent. */
function partiesRefused(
  { agentId, sellerId }: Pick<SpendingRequest, 'agentId' | 'sellerId'>,
  { allow, deny }: BudgetRules,
): string | undefined {
  if (deny.length === 0 && allow.length === 0) return undefined
  const names = [agentId, sellerId, didOrNothing(sellerId)]
  const onWeb = namesOnWeb(sellerId)
  const isOnWeb = (party: string) => onWeb.length > 0 && namedOnWeb(party).some((name) => onWeb.includes(name))
  const isNamed = (party: string) => names.includes(party) || isOnWeb(party)
  if (deny.some(isNamed)) return 'the budget denies this seller or agent (stoa budget)'
  if (allow.length === 0 || allow.some(isNamed)) return undefined
  return 'the budget allows other sellers and agents only (stoa budget)'
}

export function createBudget(configured: BudgetRules, deps: BudgetDeps): Budget {
  const { clock, asset, store, purchases } = deps
  const inTurn = createLane()
  let rules = effectiveRules(configured, deps.stored)

  /** The rules as a purchase finds them stored: another process may have changed them. */
  const storedRules = (text: string | undefined) =>
    text === undefined ? rules : effectiveRules(configured, readRules(text))

  async function refresh(): Promise<void> {
    const next = effectiveRules(configured, await store.load())
    const isChanged = !isDeepStrictEqual(next, rules)
    rules = next
    if (isChanged) deps.changed?.()
  }

  function validToken(token: StoredToken | undefined): StoredToken {
    if (token === undefined || !isValid(token, clock.now())) {
      throw new MarketError('TOKEN_ENDED', 'the token that placed this order has expired or was revoked')
    }
    if (permits(token.scope, 'spend')) return token
    const fix = 'ask the operator for one with the scope spend (stoa token create)'
    throw new MarketError('SCOPE_TOO_LOW', `the token ${token.name} may not pay, and this agent is not free: ${fix}`)
  }

  function checkParties(parties: SpendingRequest, rules: BudgetRules): void {
    const refusal = partiesRefused(parties, rules)
    if (refusal !== undefined) throw new MarketError('SELLER_NOT_ALLOWED', refusal)
  }

  const day = () => utcDay(clock.now())
  async function view(): Promise<BudgetRecord> {
    const today = day()
    const { spent, held } = await purchases.spendingOn(today)
    const left = { day: leftOf(rules.perDay, spent.day), month: leftOf(rules.perMonth, spent.month) }
    return {
      network: asset.network,
      network_kind: networkKind(asset.network),
      asset: asset.address,
      symbol: asset.symbol,
      ...amountsOf('per_call', rules.perCall),
      ...amountsOf('per_seller', rules.perSeller),
      ...amountsOf('per_day', rules.perDay),
      ...amountsOf('per_month', rules.perMonth),
      ...amountsOf('auto_approve_below', rules.autoApproveBelow),
      ...amountsOf('paid_today', spent.day - held.day),
      ...amountsOf('paid_month', spent.month - held.month),
      ...amountsOf('held_today', held.day),
      ...amountsOf('held_month', held.month),
      ...amountsOf('spent_today', spent.day),
      ...amountsOf('spent_month', spent.month),
      ...amountsOf('left_today', least(left.day, left.month)),
      ...amountsOf('left_month', left.month),
      day: today,
      allow: [...rules.allow],
      deny: [...rules.deny],
    }
  }

  function limitsFor({ tokenId }: OrderOwner, wanted: SpendingRequest, standing: Omit<Standing, 'approved'>) {
    const rules = storedRules(standing.rules)
    const { perCall, perDay, perMonth, perSeller } = rules
    const token = tokenId === undefined ? undefined : validToken(standing.token)
    checkParties(wanted, rules)
    if (perCall !== undefined && wanted.amount > perCall) {
      const most = `the budget allows ${usdc(perCall)} a call`
      throw new MarketError(
        'OVER_PRICE',
        `the seller asks for ${usdc(wanted.amount)}, ${most} (stoa budget --per-call)`,
      )
    }
    return { day: perDay, month: perMonth, seller: perSeller, 'token day': token?.perDay, token: token?.budget }
  }

  const approvalFor: Budget['approvalFor'] = ({ amount }, standing) => {
    const { autoApproveBelow: below } = storedRules(standing?.rules)
    const approved = standing?.approved
    if (below === undefined || amount < below) return undefined
    if (approved !== undefined && amount <= approved) return undefined
    return `a call of ${usdc(below)} or more waits for the operator's approval, and this one may cost ${usdc(amount)}`
  }

  return {
    rules: () => rules,
    perCall: () => rules.perCall ?? PRICE_ATOMIC_MAX,
    allows: (parties) => partiesRefused(parties, rules) === undefined,
    day,
    limitsFor,
    approvalFor,
    view,
    refresh: () => inTurn(refresh),
    // The ledger decides the order of changes. The lane keeps the rules here from going back to an older state.
    change: (change) =>
      inTurn(async () => {
        rules = await store.change(configured, change)
        deps.changed?.()
        return view()
      }),
  }
}

const limitTexts: Record<LimitName, { what: string; fix: string }> = {
  day: { what: 'the daily budget', fix: 'raise it (stoa budget --per-day) or wait' },
  month: { what: 'the monthly budget', fix: 'raise it (stoa budget --per-month) or wait' },
  seller: { what: 'the daily budget for one seller', fix: 'raise it (stoa budget --per-seller) or wait' },
  token: { what: 'the budget of this token', fix: 'ask the operator for another token' },
  'token day': { what: 'the daily budget of this token', fix: 'wait, or ask the operator for another token' },
}

/** The error for an amount that exceeds a limit. */
export function overBudget(amount: bigint, exceeded: LimitExceeded, day: string): MarketError {
  const { over, spent, max } = exceeded
  const { what, fix } = limitTexts[over]
  const used = `${usdc(spent)} of ${usdc(max)} are paid or held on ${day} (UTC)`
  return new MarketError('OVER_BUDGET', `${usdc(amount)} is more than ${what} has left: ${used}; ${fix}`, {
    cause: exceeded,
  })
}

type RefusalDeps = {
  budget: Pick<Budget, 'approvalFor' | 'limitsFor' | 'day'>
  purchases: Pick<Purchases, 'over' | 'standingOf'>
}

/** Why this node would not pay. A purchase within all limits may still need an approval. */
export async function refusalOf(
  order: OrderOwner,
  wanted: SpendingRequest,
  { budget, purchases }: RefusalDeps,
): Promise<MarketError | undefined> {
  const standing = await purchases.standingOf(order)
  try {
    const limits = budget.limitsFor(order, wanted, standing)
    const day = budget.day()
    const over = await purchases.over({ day, sellerId: wanted.sellerId, tokenId: order.tokenId }, wanted.amount, limits)
    if (over !== undefined) return overBudget(wanted.amount, over, day)
    const reason = budget.approvalFor(wanted, standing)
    return reason === undefined ? undefined : new MarketError('APPROVAL_REQUIRED', reason)
  } catch (error) {
    if (error instanceof MarketError) return error
    throw error
  }
}

/** What the token of an order may still spend. Undefined: it has no limit, or there is no token. @throws MarketError */
export async function leftOfToken(
  order: OrderOwner,
  wanted: SpendingRequest,
  { budget, purchases }: RefusalDeps,
): Promise<bigint | undefined> {
  const { tokenId } = order
  if (tokenId === undefined) return undefined
  const limits = budget.limitsFor(order, wanted, await purchases.standingOf(order))
  const spent = { day: budget.day(), sellerId: wanted.sellerId, tokenId }
  const lefts = (['token', 'token day'] as const).map(async (name) => {
    const max = limits[name]
    const over = max === undefined ? undefined : await purchases.over(spent, max + 1n, { [name]: max })
    return over && leftOf(over.max, over.spent)
  })
  return (await Promise.all(lefts)).reduce(least)
}

function leftOf(max: bigint | undefined, spent: bigint): bigint | undefined {
  return max === undefined ? undefined : max > spent ? max - spent : 0n
}

function least(one: bigint | undefined, other: bigint | undefined): bigint | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return one < other ? one : other
}

/** A peer id without an Ed25519 key has no DID. */
function didOrNothing(peerId: string): string | undefined {
  try {
    return didOfPeer(peerId)
  } catch {
    return undefined
  }
}
