import type { Catalog } from '../listings/catalog.ts'
import { unknownAgent } from '../listings/market-error.ts'
import type { ExecutionResult } from '../schema/api.ts'
import { type Caller, OPERATOR } from '../schema/caller.ts'
import type { IdempotencyKeys, KeyedRequest, RequestName } from '../store/idempotency.ts'
import { type AwaitedDeps, type Awaiting, executingOrder, givenUp, runAwaited } from './awaited-order.ts'
import type { Budget } from './budget.ts'
import { type AgainDeps, executeAgain } from './execute-again.ts'
import { checkTask, permittedPrice } from './guard.ts'
import { keyedRequest, once } from './keyed.ts'

export type ExecuteRequest = Awaiting & {
  agentId: string
  input: string
  /** Highest price of this call, in atomic units. The node's own limit also applies. */
  maxPriceAtomic?: bigint
  /** The client's name for a request whose attempts have idempotency keys of their own. */
  named?: RequestName | undefined
  /** Whose request the key names, if that is not the principal that pays. */
  keyOf?: Caller | undefined
}

export type ExecuteDeps = AgainDeps &
  AwaitedDeps & {
    catalog: Pick<Catalog, 'resolve'>
    keys: Pick<IdempotencyKeys, 'find' | 'now'>
    budget: Pick<Budget, 'perCall'>
  }

/**
 * Executes an agent for a caller that waits. Runs an own agent here, calls a free agent over the marketplace protocol,
 * and buys a paid agent. The call is stored as an order (D18).
 *
 * @throws MarketError; PeerError if the seller answers with an error; AgentError from an own agent; CodedError
 * IDEMPOTENCY_CONFLICT
 */
export async function execute(request: ExecuteRequest, deps: ExecuteDeps): Promise<ExecutionResult> {
  const { agentId, input, maxPriceAtomic, caller = OPERATOR, keyOf = caller, signal } = request
  const asked = keyedRequest(request.idempotencyKey, keyOf, ['execute', agentId, input, maxPriceAtomic], deps.keys)
  const keyed = asked && { ...asked, named: request.named }
  return once(
    keyed,
    deps,
    () => executeFirst(request, keyed, deps),
    async ({ id }) => {
      const before = await executeAgain(id, request, deps)
      // The earlier caller left, or the ledger was full, before anything was signed. So the call runs again.
      return before === 'given up' && !signal.aborted ? execute(request, deps) : givenUp(before)
    },
  )
}

async function executeFirst(
  request: ExecuteRequest,
  keyed: KeyedRequest | undefined,
  deps: ExecuteDeps,
): Promise<ExecutionResult> {
  const { agentId, input: task, maxPriceAtomic } = request
  const listing = deps.catalog.resolve(agentId)
  if (listing === undefined) throw unknownAgent(agentId)
  checkTask(task)
  const price = permittedPrice(listing, maxPriceAtomic, deps.budget.perCall())
  const order = executingOrder(request, { agentId: listing.id, sellerId: listing.seller_id, task, price }, deps)
  return runAwaited(order, listing, { request, keyed }, deps)
}
