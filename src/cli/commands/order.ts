import * as z from 'zod'
import { countText, UsdcText } from '../../config/values.ts'
import { defined } from '../../lib/defined.ts'
import { IdempotencyKey } from '../../schema/idempotency.ts'
import { type OrderRecord, OrderRecord as OrderSchema, orderStatuses } from '../../schema/order.ts'
import { agentOption, type Context, command, flag, option, required } from '../command.ts'
import { exitCodes, UsageError } from '../exit-code.ts'
import { agentIdOf, orderIdOf } from '../node-access/references.ts'
import { moneyNode } from '../node-access/remote-node.ts'
import type { RemoteNode } from '../parts.ts'
import {
  age,
  bookText,
  exitCodeOfEnd,
  oneOf,
  pageOptions,
  paidText,
  paymentText,
  printList,
  tellMore,
  waitForEnd,
  withDeadline,
  writeResult,
} from '../text/market-text.ts'
import { withSpinner } from '../text/spinner.ts'
import { columns, priceText, printableLine } from '../text/terminal-text.ts'
import { channelOptions, channelWish, keyOption, readTask, taskOptions } from './task.ts'

const TIMEOUT_SECONDS = 3600
const ORDER = {
  name: 'id',
  description: 'id of the order from `stoa order list`, or the start of the id',
  missing: 'the id of the order is missing: `stoa order list` lists the ids',
}
const waitOptions = {
  wait: flag('--wait', 'wait until the order ends, and write its result to standard output'),
  timeout: option('--timeout <seconds>', `how long to wait (default: ${TIMEOUT_SECONDS})`, countText(86_400)),
} as const

export const orderCreate = command({
  name: 'order create',
  summary: 'Order a call that the running node makes in the background',
  details:
    'An order with a task runs as soon as its agent is on the market, and pays at most the given price. An order without a task waits for stoa order execute. Orders survive restarts of the node.',
  examples: [
    'stoa order create --agent-id abc… --price 0.05 --task "Summarize: …"',
    'stoa order create --agent-id abc… --price 0.05 --task - --wait < report.txt > summary.txt',
    'stoa order create --agent-id abc… --price 0.05 --json | jq -r .id',
  ],
  options: {
    agentId: agentOption,
    price: required(
      option('--price <usdc>', 'the most to pay (required)', UsdcText),
      '--price is missing: give the most that this order may cost, in USDC',
    ),
    ...taskOptions,
    ...channelOptions,
    ...keyOption('order'),
    ...waitOptions,
  },
  async run(context, { agentId, price, task, input, channel, idempotencyKey, wait, timeout, ...rest }) {
    const { noChannel: _, ...flags } = rest
    const hasTask = task !== undefined || input !== undefined
    if (wait === true && !hasTask) throw new UsageError('--wait needs a task: give one with --task <text>')
    const text = hasTask ? await readTask(context.io, { task, input }) : undefined
    const node = await moneyNode(context, flags)
    const { signal } = context.io
    const id = await agentIdOf(node, agentId, { signal })
    const wanted = { agentId: id, price, task: text, ...channelWish(channel) }
    const order = await node.createOrder(wanted, { signal, ...defined({ idempotencyKey }) })
    return wait === true ? await follow(context, node, order, timeout) : tell(context, order)
  },
})

export const orderExecute = command({
  name: 'order execute',
  summary: 'Give a task to a waiting order',
  examples: [
    'stoa order execute 7e7d1f3c-… --task "Summarize: …" --wait',
    'stoa order execute 7e7d1f3c-… --task - < report.txt',
  ],
  options: { ...taskOptions, ...keyOption('task'), ...waitOptions },
  argument: ORDER,
  async run(context, { task, input, idempotencyKey, wait, timeout, ...flags }, id) {
    const text = await readTask(context.io, { task, input })
    const node = await moneyNode(context, flags)
    const call = { signal: context.io.signal, ...defined({ idempotencyKey }) }
    const order = await node.executeOrder(await orderIdOf(node, id, context.io), text, call)
    return wait === true ? await follow(context, node, order, timeout) : tell(context, order)
  },
})

export const orderList = command({
  name: 'order list',
  summary: 'List the orders of the running node, newest first, including those of stoa agent execute',
  examples: [
    'stoa order list',
    'stoa order list --status executing',
    'stoa order list --limit 200 --json | jq ".[].payment.amount"',
  ],
  options: {
    status: option('--status <status>', `only these: ${orderStatuses.join(', ')}`, oneOf(orderStatuses)),
    agentId: option('--agent-id <agent>', 'only orders for this agent', z.string()),
    idempotencyKey: option('--idempotency-key <key>', 'only orders made with this key', IdempotencyKey),
    ...pageOptions('orders'),
  },
  async run(context, { status, agentId, idempotencyKey, limit, cursor, ...flags }) {
    const node = await moneyNode(context, flags)
    const of = agentId === undefined ? undefined : await agentIdOf(node, agentId, context.io)
    const { items, next } = await node.orders(
      { status, agentId: of, idempotencyKey, limit, cursor },
      { signal: context.io.signal },
    )
    const now = context.parts.clock.now()
    printList(context, items, {
      none: 'no orders',
      headings: ['ORDER', 'STATUS', 'USDC', 'AGE', 'AGENT', 'SELLER'],
      cells: ({ id, status, payment, updated_at, agent_id, agent_name, seller_id, seller_name }) => [
        printableLine(id, 36),
        status,
        paidText(payment),
        age(updated_at, now),
        printableLine(agent_name ?? agent_id, 32),
        printableLine(seller_name ?? seller_id ?? '', 24),
      ],
      json: items.map(encoded),
    })
    tellMore(context, 'stoa order list', next)
  },
})

export const orderShow = command({
  name: 'order show',
  summary: 'Show an order and its result',
  examples: [
    'stoa order show 7e7d1f3c-…',
    'stoa order show 7e7d1f3c-… --wait',
    'stoa order show 7e7d1f3c-… --json | jq -r .output',
  ],
  options: { ...waitOptions },
  argument: ORDER,
  async run(context, { wait, timeout, ...flags }, id) {
    const node = await moneyNode(context, flags)
    const order = await node.order(await orderIdOf(node, id, context.io), { signal: context.io.signal })
    if (wait === true) return await follow(context, node, order, timeout)
    if (context.json) context.printJson(encoded(order))
    else show(context, order)
    return exitCodes.done
  },
})

export const orderCancel = command({
  name: 'order cancel',
  summary: 'Cancel an order; if it is running, its seller stops too',
  details:
    'A run that stops in time costs nothing. If the seller was paid all the same, the order is completed and has the result. If the seller cannot be reached, the order stays executing until its payment is known.',
  examples: ['stoa order cancel 7e7d1f3c-…'],
  argument: ORDER,
  async run(context, flags, id) {
    const node = await moneyNode(context, flags)
    return tell(context, await node.cancelOrder(await orderIdOf(node, id, context.io), { signal: context.io.signal }))
  },
})

/** Waits until an order has ended and writes its result. Returns the exit status for its outcome. */
async function follow(
  context: Context,
  node: RemoteNode,
  order: OrderRecord,
  timeout = TIMEOUT_SECONDS,
): Promise<number> {
  const spinning = context.json ? undefined : context.io.stderr
  const late = `the order did not end within ${timeout} s; it continues; see stoa order show ${order.id} --wait`
  const ended = await withDeadline(context, { seconds: timeout, late }, (signal) =>
    withSpinner(spinning, `order ${printableLine(order.id, 64)} is running`, () =>
      waitForEnd((options) => node.order(order.id, options), signal),
    ),
  )
  if (context.json) context.printJson(encoded(ended))
  else if (ended.output !== undefined) writeResult(context, { ...ended, output: ended.output })
  if (!context.json) context.tell(context.style.stderr.dim(summary(ended)))
  return exitCodeOfEnd(ended)
}

function tell(context: Context, order: OrderRecord): number {
  context.printResult(encoded(order), summary(order))
  return exitCodes.done
}

function summary({ id, status, error, payment, cancel_requested, task }: OrderRecord): string {
  if (status === 'pending' && task === null) {
    return printableLine(`order ${id} waits for its task: stoa order execute ${id} --task "…"`, 600)
  }
  const open = status === 'executing' && cancel_requested === true ? ', being canceled' : ''
  const why = error === undefined ? '' : `: ${error.message}`
  const paid = payment === undefined ? '' : `; ${paymentText(payment)}`
  return printableLine(`order ${id} ${status === 'failed' ? status : `is ${status}`}${open}${why}${paid}`, 600)
}

function boughtForText({ agent_name, agent_id }: NonNullable<OrderRecord['bought_for']>): string {
  return `your agent ${agent_name}, ${agent_id}`
}

function show(context: Context, order: OrderRecord): void {
  const { bold } = context.style.stdout
  const seller = order.seller_id ?? 'not known yet'
  const rows = [
    ['Order', order.id],
    ['Status', order.status === 'executing' && order.cancel_requested ? 'executing, being canceled' : order.status],
    ['Agent', order.agent_name === undefined ? order.agent_id : `${order.agent_name}, ${order.agent_id}`],
    ['Seller', order.seller_name === undefined ? seller : `${order.seller_name}, ${seller}`],
    ['Price', `at most ${priceText(order.price)}`],
    ['Payment', paymentText(order.payment)],
    ...(order.payment === undefined ? [] : [['Books', bookText(order.payment.book)]]),
    ...(order.workflow_id === undefined ? [] : [['Workflow', `${order.workflow_id}, step ${order.step_id}`]]),
    ...(order.bought_for === undefined ? [] : [['Bought for', boughtForText(order.bought_for)]]),
    ['Created', order.created_at],
    ['Changed', order.updated_at],
    ['Task', order.task ?? 'none yet'],
    ...(order.error === undefined ? [] : [['Error', `${order.error.code}: ${order.error.message}`]]),
  ]
  context.print(columns(rows.map(([name = '', value = '']) => [bold(name), printableLine(value)])))
  if (order.output === undefined) return
  context.print()
  writeResult(context, { ...order, output: order.output })
}

function encoded(order: OrderRecord): unknown {
  return z.encode(OrderSchema, order)
}
