import type { OrdersApi } from '../../../buying/orders.ts'
import { CreateOrder, ExecuteOrder, OrderParams, OrderQuery, OrderRecord, OrderRecords } from '../../../schema/order.ts'
import { soughtOf, WaitQuery } from '../../../schema/page.ts'
import { type Operation, operation, paged } from '../operation.ts'

const read = { method: 'GET', tags: ['orders'], access: 'private', scope: 'read', status: 200 } as const
const change = { tags: ['orders'], access: 'private', scope: 'execute', response: OrderRecord } as const

export function orderRoutes(orders: OrdersApi): Operation[] {
  return [listOrders(orders), createOrder(orders), getOrder(orders), executeOrder(orders), cancelOrder(orders)]
}

const listOrders = (orders: OrdersApi) =>
  operation({
    ...read,
    id: 'listOrders',
    path: '/orders',
    summary: 'Orders, newest first',
    description:
      'The ledger of all purchases, direct executions included. A token of `execute` or `spend` sees its own. A page ends ' +
      'early when its texts are long; one of a search (`q`, `since`, `until`) may be empty and yet lead to a next one.',
    query: OrderQuery,
    response: OrderRecords,
    errors: [],
    handler: ({ query, caller }) => {
      const { status, agent_id: agentId, idempotency_key: idempotencyKey, limit, cursor } = query
      return paged(orders.list({ status, agentId, idempotencyKey, limit, cursor, ...soughtOf(query) }, caller))
    },
  })

const createOrder = (orders: OrdersApi) =>
  operation({
    ...change,
    id: 'createOrder',
    method: 'POST',
    path: '/orders',
    summary: 'Order an execution',
    description:
      'With a task the order executes in the background as soon as its agent is known, and costs at most `price`; ' +
      'without one it waits for `POST /orders/{id}/execute`. It outlives restarts of the node.',
    idempotent: true,
    body: CreateOrder,
    example: { agent_id: 'q5v7gtn3jhb2kxw4', price: '0.05', task: 'Summarize: …' },
    status: 201,
    errors: ['INPUT_TOO_LARGE', 'NETWORK_MISMATCH', 'ORDERS_TOO_MANY', 'STORE_WRITE_FAILED'],
    location: ({ id }) => `/orders/${id}`,
    handler: ({ body: { agent_id, price, task }, caller, idempotencyKey }) =>
      orders.create({ agentId: agent_id, price, task, caller, idempotencyKey }),
  })

const getOrder = (orders: OrdersApi) =>
  operation({
    ...read,
    id: 'getOrder',
    path: '/orders/{id}',
    summary: 'One order',
    params: OrderParams,
    query: WaitQuery,
    response: OrderRecord,
    errors: ['UNKNOWN_ORDER'],
    handler({ params, query, signal, caller }) {
      return orders.settled(params.id, { limitMs: query.wait * 1000, signal }, caller)
    },
  })

const executeOrder = (orders: OrdersApi) =>
  operation({
    ...change,
    id: 'executeOrder',
    method: 'POST',
    path: '/orders/{id}/execute',
    summary: 'Give a waiting order its task',
    description: 'It executes in the background: `GET /orders/{id}?wait=30` waits for its end.',
    idempotent: true,
    params: OrderParams,
    body: ExecuteOrder,
    example: { task: 'Summarize: …' },
    status: 202,
    errors: ['UNKNOWN_ORDER', 'ORDER_FINAL', 'ORDER_NOT_WAITING', 'INPUT_TOO_LARGE', 'STORE_WRITE_FAILED'],
    handler: ({ params, body, caller, idempotencyKey }) => orders.execute(params.id, body.task, caller, idempotencyKey),
  })

const cancelOrder = (orders: OrdersApi) =>
  operation({
    ...change,
    id: 'cancelOrder',
    method: 'DELETE',
    path: '/orders/{id}',
    summary: 'Cancel an order',
    description:
      'One that runs is aborted at its seller too, who then charges nothing. What turns out to be paid for is kept: ' +
      'the order is then `completed`. One whose seller has not said what became of it stays `executing` until it has.',
    params: OrderParams,
    status: 200,
    errors: ['UNKNOWN_ORDER', 'ORDER_FINAL', 'STORE_WRITE_FAILED'],
    handler: ({ params, caller }) => orders.cancel(params.id, caller),
  })
