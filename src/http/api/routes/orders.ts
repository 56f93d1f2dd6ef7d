import type { Caller } from '../../../schema/caller.ts'
import { CreateOrder, ExecuteOrder, OrderParams, OrderQuery, OrderRecord, OrderRecords } from '../../../schema/order.ts'
import { type Page, soughtOf, WaitQuery } from '../../../schema/page.ts'
import { type Operation, operation, paged } from '../operation.ts'

type ListQuery = {
  status?: OrderRecord['status'] | undefined
  agentId?: string | undefined
  idempotencyKey?: string | undefined
  text?: string | undefined
  since?: number | undefined
  until?: number | undefined
  limit: number
  cursor?: string | undefined
}

export type OrderRouteDeps = {
  orders: {
    create(order: {
      agentId: string
      price: bigint
      task?: string | undefined
      caller: Caller
      idempotencyKey?: string | undefined
    }): Promise<OrderRecord>
    execute(id: string, task: string, caller: Caller, idempotencyKey?: string): Promise<OrderRecord>
    cancel(id: string, caller: Caller): Promise<OrderRecord>
    list(query: ListQuery, caller: Caller): Page<OrderRecord>
    settled(id: string, options: { limitMs: number; signal: AbortSignal }, caller: Caller): Promise<OrderRecord>
  }
}

const tags = ['orders']
const access = 'private'

export function orderRoutes({ orders }: OrderRouteDeps): Operation[] {
  return [
    operation({
      id: 'listOrders',
      method: 'GET',
      path: '/orders',
      summary: 'Orders, newest first',
      description:
        'The ledger of all purchases, direct executions included. A token of `execute` or `spend` sees its own. A page ends ' +
        'early when its texts are long; one of a search (`q`, `since`, `until`) may be empty and yet lead to a next one.',
      tags,
      access,
      scope: 'read',
      query: OrderQuery,
      response: OrderRecords,
      status: 200,
      errors: [],
      handler: ({ query, caller }) => {
        const { status, agent_id: agentId, idempotency_key: idempotencyKey, limit, cursor } = query
        return paged(orders.list({ status, agentId, idempotencyKey, limit, cursor, ...soughtOf(query) }, caller))
      },
    }),
    operation({
      id: 'createOrder',
      method: 'POST',
      path: '/orders',
      summary: 'Order an execution',
      description:
        'With a task the order executes in the background as soon as its agent is known, and costs at most `price`; ' +
        'without one it waits for `POST /orders/{id}/execute`. It outlives restarts of the node.',
      tags,
      access,
      scope: 'execute',
      idempotent: true,
      body: CreateOrder,
      example: { agent_id: 'q5v7gtn3jhb2kxw4', price: '0.05', task: 'Summarize: …' },
      response: OrderRecord,
      status: 201,
      errors: ['INPUT_TOO_LARGE', 'NETWORK_MISMATCH', 'ORDERS_TOO_MANY', 'STORE_WRITE_FAILED'],
      location: ({ id }) => `/orders/${id}`,
      handler: ({ body: { agent_id, price, task }, caller, idempotencyKey }) =>
        orders.create({ agentId: agent_id, price, task, caller, idempotencyKey }),
    }),
    operation({
      id: 'getOrder',
      method: 'GET',
      path: '/orders/{id}',
      summary: 'One order',
      tags,
      access,
      scope: 'read',
      params: OrderParams,
      query: WaitQuery,
      response: OrderRecord,
      status: 200,
      errors: ['UNKNOWN_ORDER'],
      handler({ params, query, signal, caller }) {
        return orders.settled(params.id, { limitMs: query.wait * 1000, signal }, caller)
      },
    }),
    operation({
      id: 'executeOrder',
      method: 'POST',
      path: '/orders/{id}/execute',
      summary: 'Give a waiting order its task',
      description: 'It executes in the background: `GET /orders/{id}?wait=30` waits for its end.',
      tags,
      access,
      scope: 'execute',
      idempotent: true,
      params: OrderParams,
      body: ExecuteOrder,
      example: { task: 'Summarize: …' },
      response: OrderRecord,
      status: 202,
      errors: ['UNKNOWN_ORDER', 'ORDER_FINAL', 'ORDER_NOT_WAITING', 'INPUT_TOO_LARGE', 'STORE_WRITE_FAILED'],
      handler: ({ params, body, caller, idempotencyKey }) =>
        orders.execute(params.id, body.task, caller, idempotencyKey),
    }),
    operation({
      id: 'cancelOrder',
      method: 'DELETE',
      path: '/orders/{id}',
      summary: 'Cancel an order',
      description:
        'One that runs is aborted at its seller too, who then charges nothing. What turns out to be paid for is kept: ' +
        'the order is then `completed`. One whose seller has not said what became of it stays `executing` until it has.',
      tags,
      access,
      scope: 'execute',
      params: OrderParams,
      response: OrderRecord,
      status: 200,
      errors: ['UNKNOWN_ORDER', 'ORDER_FINAL', 'STORE_WRITE_FAILED'],
      handler: ({ params, caller }) => orders.cancel(params.id, caller),
    }),
  ]
}
