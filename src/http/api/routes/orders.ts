import type { OrdersApi } from '../../../buying/orders.ts'
import { CreateOrder, ExecuteOrder, OrderParams, OrderQuery, OrderRecord, OrderRecords } from '../../../schema/order.ts'
import { soughtOf, WaitQuery } from '../../../schema/page.ts'
import { type Operation, operation, paged } from '../operation.ts'

const read = { method: 'GET', tags: ['orders'], access: 'private', scope: 'read' } as const
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
      'All purchases, including direct executions. A token of `execute` or `spend` sees its own. A page ends early ' +
      'if its texts are long. A page of a search (`q`, `since`, `until`) may be empty and still have a next one.',
    query: OrderQuery,
    response: OrderRecords,
    handler: async ({ query, caller }) => {
      const { status, agent_id: agentId, idempotency_key: idempotencyKey, limit, cursor } = query
      return paged(await orders.list({ status, agentId, idempotencyKey, limit, cursor, ...soughtOf(query) }, caller))
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
      'An order with a task executes in the background as soon as its agent is known, and costs at most `price`. An ' +
      'order without a task waits for `POST /orders/{id}/execute`. Orders outlive restarts of the node. With `url` the order ' +
      'is for an x402 seller over HTTP, which is asked and paid in the background.',
    idempotent: true,
    body: CreateOrder,
    example: { agent_id: 'q5v7gtn3jhb2kxw4', price: '0.05', task: 'Summarize: …' },
    status: 201,
    errors: ['INPUT_TOO_LARGE', 'NETWORK_MISMATCH', 'ORDERS_TOO_MANY', 'STORE_WRITE_FAILED', 'URL_REFUSED'],
    location: ({ id }) => `/orders/${id}`,
    handler: ({ body, caller, idempotencyKey }) => {
      if ('url' in body) return orders.createOnWeb({ ...body, caller, idempotencyKey })
      const { agent_id: agentId, ...order } = body
      return orders.create({ agentId, ...order, caller, idempotencyKey })
    },
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
    handler: ({ params, query, signal, caller }) =>
      orders.settled(params.id, { limitMs: query.wait * 1000, signal }, caller),
  })

const executeOrder = (orders: OrdersApi) =>
  operation({
    ...change,
    id: 'executeOrder',
    method: 'POST',
    path: '/orders/{id}/execute',
    summary: 'Give a waiting order its task',
    description: 'The order executes in the background. `GET /orders/{id}?wait=30` waits for its end.',
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
      'The node also stops the run at the seller, who then charges nothing. If the seller was paid all the ' +
      'same, the order is `completed` and has the result. The order stays `executing` until the seller says what ' +
      'became of it.',
    params: OrderParams,
    errors: ['UNKNOWN_ORDER', 'ORDER_FINAL', 'STORE_WRITE_FAILED'],
    handler: ({ params, caller }) => orders.cancel(params.id, caller),
  })
