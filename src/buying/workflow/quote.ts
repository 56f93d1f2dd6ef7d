import { largest } from '../../lib/bigints.ts'
import { MarketError, unknownAgentText } from '../../listings/market-error.ts'
import { formatPrice, usdc } from '../../schema/amount.ts'
import type { Listing } from '../../schema/listing.ts'
import type { WorkflowDefinition, WorkflowQuote } from '../../schema/workflow.ts'
import type { StepPlan } from '../../store/workflow-row.ts'
import { amountsOf } from '../budget-rules.ts'
import { foreignNetwork } from '../guard.ts'
import { unaskedOrder, wishOfStep } from '../web/first-request.ts'
import type { WebSellers } from '../web/web-sellers.ts'
import { invalid, planSteps } from './plan.ts'

/** What a step buys from: an agent of the market, or a URL at the most that the step may cost. */
type Priced = Pick<Listing, 'id' | 'name' | 'seller_id' | 'local' | 'price'>
type PricedStep = StepPlan & { listings: readonly Priced[] }
export type PriceDeps = {
  resolve(agentId: string): Listing | undefined
  /** Highest price of one call on this node, in atomic units. */
  maxPrice(): bigint
  web: Pick<WebSellers, 'url'>
}

/** What a run of an agent costs this node. Own agents are free (D17). */
export function costOf(listing: Pick<Listing, 'local' | 'price'>): bigint {
  return listing.local ? 0n : listing.price
}

/**
 * Plans a workflow at current prices. Pays nothing.
 *
 * @throws MarketError NETWORK_MISMATCH for an agent of another network (D37); WORKFLOW_INVALID for a wrong shape, an
 * unknown agent, or a limit that the listed prices exceed
 */
export function priceSteps(definition: WorkflowDefinition, { resolve, maxPrice, web }: PriceDeps): PricedStep[] {
  const issues: { path: string; message: string }[] = []
  let code: 'WORKFLOW_INVALID' | 'NETWORK_MISMATCH' = 'WORKFLOW_INVALID'
  const nodeLimit = () => `this node pays at most ${usdc(maxPrice())} for one call (stoa budget --per-call)`
  const steps = planSteps(definition).map((plan, index): PricedStep => {
    const listings = plan.agents.flatMap((agentId, place): Priced | [] => {
      const isUrl = place === 0 && plan.web !== undefined
      const path = `steps[${index}].${place > 0 ? `fallback[${place - 1}]` : isUrl ? 'url' : 'agent_id'}`
      if (isUrl) {
        const priced = pricedUrl(plan, web)
        if ('issue' in priced) issues.push({ path, message: priced.issue })
        else if (priced.price > maxPrice()) {
          issues.push({ path: `steps[${index}].max_price`, message: `is ${usdc(priced.price)}, and ${nodeLimit()}` })
        }
        return 'issue' in priced ? [] : priced
      }
      const listing = resolve(agentId)
      if (listing === undefined) {
        issues.push({ path, message: unknownAgentText(agentId) })
      } else if (foreignNetwork(listing) !== undefined) {
        issues.push({ path, message: foreignNetwork(listing)! })
        code = 'NETWORK_MISMATCH'
      } else if (costOf(listing) > maxPrice()) {
        issues.push({ path, message: `${listing.name} costs ${usdc(listing.price)}, ${nodeLimit()}` })
      }
      return listing ?? []
    })
    const [first] = listings
    if (plan.maxPrice !== undefined && first !== undefined && costOf(first) > plan.maxPrice) {
      issues.push({ path: `steps[${index}].max_price`, message: `${first.name} costs ${usdc(costOf(first))}` })
    }
    const agents = plan.web === undefined ? plan.agents : [first?.id ?? '', ...plan.agents.slice(1)]
    return { ...plan, agents, listings }
  })
  const total = sum(steps.map(({ listings }) => (listings[0] === undefined ? 0n : costOf(listings[0]))))
  if (definition.budget !== undefined && total > definition.budget) {
    issues.push({ path: 'budget', message: `is ${usdc(definition.budget)}, and the steps cost ${usdc(total)}` })
  }
  if (issues.length > 0) throw invalid(issues, code)
  return steps
}

/** A URL at the most that its step may cost. What it asks is known when the step runs. */
function pricedUrl({ web, maxPrice = 0n }: StepPlan, sellers: PriceDeps['web']): Priced | { issue: string } {
  try {
    const url = sellers.url(web!.url)
    const { agentId: id, agentName: name } = unaskedOrder(url, wishOfStep(web!, '-'))
    return { id, name, seller_id: url.origin, local: false, price: maxPrice }
  } catch (error) {
    if (!(error instanceof MarketError)) throw error
    return { issue: error.message }
  }
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

function quotedAgent(listing: Priced) {
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
