import { largest } from '../../lib/bigints.ts'
import { formatPrice, usdc } from '../../schema/amount.ts'
import type { Listing } from '../../schema/listing.ts'
import type { WorkflowDefinition, WorkflowQuote } from '../../schema/workflow.ts'
import type { StepPlan } from '../../store/workflow-row.ts'
import { amountsOf } from '../budget-rules.ts'
import { foreignNetwork } from '../guard.ts'
import { invalid, planSteps } from './plan.ts'

type PricedStep = StepPlan & { listings: readonly Listing[] }
export type PriceDeps = {
  resolve(agentId: string): Listing | undefined
  /** Highest price of one call on this node, in atomic units. */
  maxPrice(): bigint
}

/** What a run of an agent costs this node. Own agents are free (D17). */
export function costOf(listing: Listing): bigint {
  return listing.local ? 0n : listing.price
}

/**
 * Plans a workflow at current prices. Pays nothing.
 *
 * @throws MarketError NETWORK_MISMATCH for an agent of another network (D37); WORKFLOW_INVALID for a wrong shape, an
 * unknown agent, or a limit that the listed prices exceed
 */
export function priceSteps(definition: WorkflowDefinition, { resolve, maxPrice }: PriceDeps): PricedStep[] {
  const issues: { path: string; message: string }[] = []
  let code: 'WORKFLOW_INVALID' | 'NETWORK_MISMATCH' = 'WORKFLOW_INVALID'
  const steps = planSteps(definition).map((plan, index): PricedStep => {
    const listings = plan.agents.flatMap((agentId, place) => {
      const path = `steps[${index}].${place === 0 ? 'agent_id' : `fallback[${place - 1}]`}`
      const listing = resolve(agentId)
      if (listing === undefined) {
        issues.push({ path, message: `no agent ${agentId} is known here; see GET /agents or stoa agent discover` })
      } else if (foreignNetwork(listing) !== undefined) {
        issues.push({ path, message: foreignNetwork(listing)! })
        code = 'NETWORK_MISMATCH'
      } else if (costOf(listing) > maxPrice()) {
        const limit = `this node pays at most ${usdc(maxPrice())} for one call (stoa budget --per-call)`
        issues.push({ path, message: `${listing.name} costs ${usdc(listing.price)}, ${limit}` })
      }
      return listing ?? []
    })
    const [first] = listings
    if (plan.maxPrice !== undefined && first !== undefined && costOf(first) > plan.maxPrice) {
      issues.push({ path: `steps[${index}].max_price`, message: `${first.name} costs ${usdc(costOf(first))}` })
    }
    return { ...plan, listings }
  })
  const total = sum(steps.map(({ listings }) => (listings[0] === undefined ? 0n : costOf(listings[0]))))
  if (definition.budget !== undefined && total > definition.budget) {
    issues.push({ path: 'budget', message: `is ${usdc(definition.budget)}, and the steps cost ${usdc(total)}` })
  }
  if (issues.length > 0) throw invalid(issues, code)
  return steps
}

/** Returns the cost of a workflow, step by step. @throws MarketError WORKFLOW_INVALID, NETWORK_MISMATCH */
export function quoteOf(definition: WorkflowDefinition, deps: PriceDeps): WorkflowQuote {
  const steps = priceSteps(definition, deps)
  const total = sum(steps.map(({ listings }) => costOf(listings[0]!)))
  const dearest = sum(steps.map(({ listings }) => listings.map(costOf).reduce((a, b) => largest(a, b))))
  return {
    dry_run: true,
    ...(definition.budget !== undefined && { budget: formatPrice(definition.budget) }),
    ...amountsOf('total', total),
    ...amountsOf('total_max', dearest),
    steps: steps.map(({ id, dependsOn, input, maxPrice, listings: [first, ...fallback] }) => ({
      id,
      ...quotedAgent(first!),
      depends_on: [...dependsOn],
      input,
      ...(maxPrice !== undefined && { max_price: formatPrice(maxPrice) }),
      fallback: fallback.map(quotedAgent),
    })),
  }
}

function quotedAgent(listing: Listing) {
  return {
    agent_id: listing.id,
    name: listing.name,
    seller_id: listing.seller_id,
    local: listing.local,
    ...amountsOf('price', costOf(listing)),
  }
}

function sum(amounts: readonly bigint[]): bigint {
  return amounts.reduce((total, amount) => total + amount, 0n)
}
