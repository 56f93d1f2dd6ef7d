import type { Config } from '../config/config.ts'
import { formatPrice, parsePrice } from '../schema/amount.ts'
import type { ChangeBudget } from '../schema/budget.ts'
import type { StoredRulesText } from '../store/stored-rules.ts'

/** What this node may spend. Amounts are atomic units. Undefined means no limit. */
export type BudgetRules = {
  perCall: bigint | undefined
  /** These three limits apply per UTC day or UTC month. */
  perSeller: bigint | undefined
  perDay: bigint | undefined
  perMonth: bigint | undefined
  /** A purchase of this amount or more needs an approval. */
  autoApproveBelow: bigint | undefined
  /** Peer ids, DIDs and agent ids. If the list is not empty, only these may be bought from. */
  allow: readonly string[]
  deny: readonly string[]
}
type Rule = keyof BudgetRules
const amountRules = ['perCall', 'perSeller', 'perDay', 'perMonth', 'autoApproveBelow'] as const
const listRules = ['allow', 'deny'] as const

export function budgetRules(buyer: Partial<Config['buyer']>): BudgetRules {
  return {
    perCall: buyer.maxPriceAtomic,
    perSeller: buyer.sellerBudgetAtomic,
    perDay: buyer.dailyBudgetAtomic,
    perMonth: buyer.monthlyBudgetAtomic,
    autoApproveBelow: buyer.autoApproveBelowAtomic,
    allow: buyer.allow ?? [],
    deny: buyer.deny ?? [],
  }
}

/** A rule as stored text: decimal USDC, null for no limit, or the list. */
type RuleText = string | null | readonly string[]
/** Each rule changed while the node ran, with the configured value at that time. */
export type StoredRules = { [R in Rule]?: { is: RuleText; configured: RuleText } }

/** The rules in force. A change made at runtime holds until the configured value of that rule changes. */
export function effectiveRules(configured: BudgetRules, stored: StoredRules): BudgetRules {
  const rules = { ...configured }
  for (const name of amountRules) {
    const kept = stored[name]
    if (kept !== undefined && isSame(kept.configured, textOf(configured, name))) {
      rules[name] = kept.is === null ? undefined : parsePrice(String(kept.is))
    }
  }
  for (const name of listRules) {
    const kept = stored[name]
    if (kept !== undefined && isSame(kept.configured, textOf(configured, name))) rules[name] = kept.is as string[]
  }
  return rules
}

function changedRules(rules: BudgetRules, change: ChangeBudget): BudgetRules {
  const amount = (given: bigint | null | undefined, now: bigint | undefined) =>
    given === undefined ? now : (given ?? undefined)
  return {
    perCall: amount(change.per_call, rules.perCall),
    perSeller: amount(change.per_seller, rules.perSeller),
    perDay: amount(change.per_day, rules.perDay),
    perMonth: amount(change.per_month, rules.perMonth),
    autoApproveBelow: amount(change.auto_approve_below, rules.autoApproveBelow),
    allow: change.allow ?? rules.allow,
    deny: change.deny ?? rules.deny,
  }
}

export type RulesStore = {
  load(): Promise<StoredRules>
  /**
   * Changes the stored rules, of any process.
   *
   * @returns the rules in force, durable when the promise resolves
   */
  change(configured: BudgetRules, change: ChangeBudget): Promise<BudgetRules>
}

/** The stored rules of their text. */
export function readRules(text: string | undefined): StoredRules {
  return text === undefined ? {} : (JSON.parse(text) as StoredRules)
}

export function createRulesStore(texts: StoredRulesText): RulesStore {
  return {
    load: async () => readRules(await texts.load()),
    async change(configured, change) {
      const edit = (text: string | undefined) => {
        const before = readRules(text)
        const rules = changedRules(effectiveRules(configured, before), change)
        return JSON.stringify({ ...untouched(before, configured, change), ...storedRules(configured, rules) })
      }
      return effectiveRules(configured, readRules(await texts.change(edit)))
    },
  }
}

const namesInChange: Record<Rule, keyof ChangeBudget> = {
  perCall: 'per_call',
  perSeller: 'per_seller',
  perDay: 'per_day',
  perMonth: 'per_month',
  autoApproveBelow: 'auto_approve_below',
  allow: 'allow',
  deny: 'deny',
}

/**
 * The stored limits that were set under another configuration and that this change does not set. Keeps only limits that are
 * stricter than that configuration: they hold here if this configuration becomes the same.
 */
function untouched(stored: StoredRules, configured: BudgetRules, change: ChangeBudget): StoredRules {
  const kept = [...amountRules, ...listRules].filter((name) => {
    const rule = stored[name]
    if (rule === undefined || change[namesInChange[name]] !== undefined) return false
    return !isSame(rule.configured, textOf(configured, name)) && isStricter(name, rule)
  })
  return Object.fromEntries(kept.map((name) => [name, stored[name]]))
}

function isStricter(name: Rule, { is, configured }: { is: RuleText; configured: RuleText }): boolean {
  if (is === null) return false
  if (typeof is === 'string') return configured === null || parsePrice(is) < parsePrice(String(configured))
  const before = configured as readonly string[]
  if (name === 'deny') return before.every((party) => is.includes(party))
  return is.length > 0 && (before.length === 0 || is.every((party) => before.includes(party)))
}

function storedRules(configured: BudgetRules, rules: BudgetRules): StoredRules {
  const stored: StoredRules = {}
  for (const name of [...amountRules, ...listRules]) {
    const [is, was] = [textOf(rules, name), textOf(configured, name)]
    if (!isSame(is, was)) stored[name] = { is, configured: was }
  }
  return stored
}

/** An amount in the two fields the API uses: decimal, and atomic units. */
export function amountsOf<N extends string>(name: N, atomic: bigint): Record<N | `${N}_atomic`, string>
export function amountsOf<N extends string>(
  name: N,
  atomic: bigint | undefined,
): Record<N | `${N}_atomic`, string | null>
export function amountsOf(name: string, atomic: bigint | undefined): Record<string, string | null> {
  if (atomic === undefined) return { [name]: null, [`${name}_atomic`]: null }
  return { [name]: formatPrice(atomic), [`${name}_atomic`]: atomic.toString() }
}

function textOf(rules: BudgetRules, name: Rule): RuleText {
  const rule = rules[name]
  if (rule === undefined) return null
  return typeof rule === 'bigint' ? formatPrice(rule) : rule
}

function isSame(one: RuleText, other: RuleText): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}
