import { countText } from '../../config/values.ts'
import { Book } from '../../schema/book.ts'
import { STATS_DAYS_MAX } from '../../schema/ledger.ts'
import { PAGE_ITEMS_MAX } from '../../schema/limits.ts'
import { PaymentRecord } from '../../schema/payment-record.ts'
import { type Context, command, option } from '../command.ts'
import { moneyNode } from '../node-access/remote-node.ts'
import type { RemoteNode } from '../parts.ts'
import { age, bookText, oneOf, pageOptions, paymentLines, printList, table, tellMore } from '../text/market-text.ts'
import { columns, printableLine } from '../text/terminal-text.ts'
import { fullPaymentId } from './payment-id.ts'

export const PAYMENT = {
  name: 'id',
  description: 'id of the payment from `stoa payment list`, or the start of the id',
  missing: 'the id of the payment is missing: `stoa payment list` lists the ids',
}
const states = PaymentRecord.shape.state.options
const books = Book.options

export const paymentList = command({
  name: 'payment list',
  summary: 'List the payments that the running node received and made, newest first',
  examples: ['stoa payment list', 'stoa payment list --direction in --state pending', 'stoa payment list --json'],
  options: {
    direction: option('--direction <in|out>', 'only payments received (in) or made (out)', oneOf(['in', 'out'])),
    state: option('--state <state>', `only these: ${states.join(', ')}`, oneOf(states as [string, ...string[]])),
    book: option(
      '--book <word>',
      `only payments booked as: ${books.join(', ')}`,
      oneOf(books as [string, ...string[]]),
    ),
    ...pageOptions('payments'),
  },
  async run(context, { direction, state, book, limit, cursor, ...flags }) {
    const node = await moneyNode(context, flags)
    const only = { state: state as PaymentRecord['state'] | undefined, book: book as Book | undefined }
    const query = { direction, ...only, limit, cursor }
    const { items, next } = await node.payments(query, { signal: context.io.signal })
    const now = context.parts.clock.now()
    printList(context, items, {
      none: 'no payments',
      headings: ['', 'USDC', 'BOOK', 'STATE', 'AGE', 'AGENT', 'PAYMENT'],
      cells: (payment) => [
        payment.direction,
        payment.amount,
        bookText(payment.book),
        payment.state,
        age(payment.created_at, now),
        printableLine(payment.agent_name ?? payment.agent_id, 20),
        payment.payment_id,
      ],
    })
    tellMore(context, 'stoa payment list', next)
  },
})

export const paymentShow = command({
  name: 'payment show',
  summary: 'Show one payment with its authorization and transaction',
  examples: ['stoa payment show 0x…'],
  argument: PAYMENT,
  async run(context, flags, id) {
    const node = await moneyNode(context, flags)
    return tell(context, await node.payment(await idOf(node, id, context), { signal: context.io.signal }))
  },
})

export const paymentRetry = command({
  name: 'payment retry',
  summary:
    'Retry the settlement of a received payment, or check on the chain whether a payment of this node was charged',
  examples: ['stoa payment retry 0x…'],
  argument: PAYMENT,
  async run(context, flags, id) {
    const node = await moneyNode(context, flags)
    return tell(context, await node.retryPayment(await idOf(node, id, context), { signal: context.io.signal }))
  },
})

export const earnings = command({
  name: 'earnings',
  summary: 'Show what the running node earned and spent: today, in the last 30 days, and in total',
  details:
    'Of each day, CALLS are runs of the agents of this node, FAILED are those of them that failed, and BOUGHT are purchases that were paid or may still be charged.',
  examples: ['stoa earnings', 'stoa earnings --days 7', 'stoa earnings --json | jq .earned.today'],
  options: { days: option('--days <n>', 'how many days to list (default: 7)', countText(STATS_DAYS_MAX)) },
  async run(context, { days = 7, ...flags }) {
    const node = await moneyNode(context, flags)
    const stats = await node.stats({ days }, { signal: context.io.signal })
    if (context.json) {
      context.printJson(stats)
      return
    }
    const { earned, owed, lost, refused, paid, held } = stats
    const sums = [
      ['USDC', 'EARNED', 'PAID'],
      ['today', earned.today, paid.today],
      ['30 days', earned.month, paid.month],
      ['total', earned.total, paid.total],
    ]
    context.print(columns(sums, { gap: 2 }))
    if (owed.payments > 0)
      context.print(`owed: ${owed.amount} USDC waits for settlement, in ${counted(owed.payments, 'payment')}`)
    if (held.payments > 0) {
      context.print(`held: ${held.amount} USDC may still be charged, in ${counted(held.payments, 'signed payment')}`)
    }
    if (refused.payments > 0) {
      const calls = counted(refused.payments, 'call')
      context.print(`refused: ${refused.amount} USDC for ${calls} was not paid, and nothing ran`)
    }
    if (lost.payments > 0) {
      const hint = 'stoa payment list --state failed'
      context.tell(
        context.style.stderr.yellow(
          `lost: ${lost.amount} USDC of work was never paid, in ${counted(lost.payments, 'call')}: ${hint}`,
        ),
      )
    }
    if (stats.days.length > 0) {
      const rows = stats.days.map((day) => [
        day.day,
        day.earned,
        day.paid,
        `${day.executions}`,
        `${day.failed}`,
        `${day.bought}`,
      ])
      context.print(['', ...table(['DAY', 'EARNED', 'PAID', 'CALLS', 'FAILED', 'BOUGHT'], rows, context)])
    }
  },
})

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

export function idOf(node: RemoteNode, id: string, { io: { signal } }: Context): Promise<string> {
  return fullPaymentId(id, () => node.payments({ limit: PAGE_ITEMS_MAX }, { signal }))
}

function tell(context: Context, payment: PaymentRecord): void {
  context.printResult(payment, paymentLines(payment))
}
