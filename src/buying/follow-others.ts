import type { NodeFeed } from '../ledger/ledger-feed.ts'
import type { TailListener } from '../ledger/tail.ts'
import type { Changes } from '../lib/changes.ts'
import type { Logger } from '../lib/logger.ts'
import type { Hex } from '../schema/primitives.ts'
import { isFinal } from '../store/order-row.ts'
import type { OrderStore } from '../store/orders.ts'
import type { Purchases } from '../store/purchases.ts'
import type { Approvals } from './approvals.ts'
import type { Budget } from './budget.ts'
import type { Channels } from './channels/channels.ts'
import { canceled } from './order-requests.ts'
import type { Orders } from './orders.ts'
import type { Recovery } from './recovery.ts'
import type { ActiveOrders } from './run-order.ts'
import type { Workflows } from './workflow/workflows.ts'

type FollowDeps = {
  logger: Logger
  feed: NodeFeed
  /** Changes of orders. */
  changes: Changes
  workflowChanges: Changes
  active: ActiveOrders
  purchases: Pick<Purchases, 'order'>
  store: Pick<OrderStore, 'workerOf' | 'pending'>
  orders: Pick<Orders, 'enqueue' | 'forget'>
  recovery: Pick<Recovery, 'look'>
  approvals: Pick<Approvals, 'get'>
  budget: Pick<Budget, 'refresh'>
  workflows: Pick<Workflows, 'takeOver'>
  /** Payment channels of this process. */
  channels: Pick<Channels, 'exits'>
}

/**
 * Tells the callers that wait here what other processes have changed, and continues work of this process that another one has
 * decided about.
 */
export function followOthers(deps: FollowDeps): TailListener {
  const { logger, feed, changes, workflowChanges, approvals, budget, workflows, channels } = deps
  const failed = (fields: { order_id?: string }) => (error: unknown) =>
    logger.error({ ...fields, err: error }, 'what another process has changed could not be followed')
  return {
    changed({ record, id }) {
      if (record === 'order' || record === 'purchase') changes.tell(id, 'elsewhere')
      else if (record === 'work') lookAt(id, deps).catch(failed({ order_id: id }))
      else if (record === 'workflow') workflowChanges.tell(id, 'elsewhere')
      else if (record === 'budget') budget.refresh().catch(failed({}))
      else if (record === 'leaving') channels.exits?.followed(id as Hex).catch(failed({}))
      else if (record === 'approval') feed.publish('approval', id, () => approvals.get(id), 'elsewhere')
    },
    missed() {
      budget.refresh().catch(failed({}))
      changes.checkAll()
      workflowChanges.checkAll()
      lookAtAll(deps).catch(failed({}))
      workflows.takeOver().catch(failed({}))
      channels.exits?.followAll().catch(failed({}))
    },
  }
}

/** Another process has canceled an order, given it a task, decided its approval, or asks what became of it. */
async function lookAt(id: string, { purchases, store, active, orders, recovery }: FollowDeps): Promise<void> {
  const order = await purchases.order(id)
  if (order === undefined) return
  const cancel = active.get(id)
  if (isFinal(order.status)) orders.forget(id, order.agentId)
  else if (cancel !== undefined) {
    if (order.cancelRequested === true) cancel(canceled(id))
  } else if ((await store.workerOf(id)) === 'here') {
    if (order.status === 'executing') await recovery.look(id)
    else if (order.task !== undefined) orders.enqueue(id)
  }
}

async function lookAtAll(deps: FollowDeps): Promise<void> {
  for (const id of [...deps.active.keys()]) await lookAt(id, deps)
  for (const { id } of await deps.store.pending()) deps.orders.enqueue(id)
}
