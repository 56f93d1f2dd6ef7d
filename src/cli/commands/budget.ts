import * as z from 'zod'
import { PartyList, UsdcText } from '../../config/values.ts'
import type { BudgetRecord, ChangeBudget } from '../../schema/budget.ts'
import { command, option } from '../command.ts'
import { moneyNode } from '../node-access/remote-node.ts'
import { columns, printableLine, type Style } from '../text/terminal-text.ts'

const NONE = 'none'
/** An amount, or `none` for no limit. */
const LimitText = z.union([z.literal(NONE).transform(() => null), UsdcText], {
  error: `an amount in USDC such as 0.05, with at most 6 decimals, or ${NONE}`,
})
const Parties = z.union([z.literal(NONE).transform((): string[] => []), PartyList], {
  error: `ids of peers and agents separated by commas, or ${NONE}`,
})

export const budget = command({
  name: 'budget',
  summary: 'Show the spending limits of this node and the amounts spent, or change the limits',
  details:
    'A change takes effect now and survives restarts, until the flag, variable or config.yaml setting of that limit changes. ' +
    'The value none removes a limit.',
  examples: [
    'stoa budget',
    'stoa budget --per-day 10 --per-month 100',
    'stoa budget --auto-approve-below 0.50',
    'stoa budget --deny 12D3KooW… --json',
  ],
  options: {
    perCall: option('--per-call <usdc>', 'the most that one call may cost', LimitText),
    perSeller: option('--per-seller <usdc>', 'the most that one seller may be paid per day', LimitText),
    perDay: option('--per-day <usdc>', 'the most that may be spent per day (UTC)', LimitText),
    perMonth: option('--per-month <usdc>', 'the most that may be spent per month (UTC)', LimitText),
    autoApproveBelow: option(
      '--auto-approve-below <usdc>',
      'a call that costs this or more waits for your approval',
      LimitText,
    ),
    allow: option('--allow <ids>', 'buy only from these sellers and agents, separated by commas', Parties),
    deny: option('--deny <ids>', 'never buy from these sellers and agents, separated by commas', Parties),
  },
  async run(context, { perCall, perSeller, perDay, perMonth, autoApproveBelow, allow, deny, ...flags }) {
    const change: ChangeBudget = {
      per_call: perCall,
      per_seller: perSeller,
      per_day: perDay,
      per_month: perMonth,
      auto_approve_below: autoApproveBelow,
      allow,
      deny,
    }
    const node = await moneyNode(context, flags)
    const options = { signal: context.io.signal }
    const isChange = Object.values(change).some((value) => value !== undefined)
    const record = await (isChange ? node.changeBudget(change, options) : node.budget(options))
    context.printResult(record, linesOf(record, context.style.stdout))
  },
})

function linesOf(record: BudgetRecord, { bold }: Style): string[] {
  const most = (amount: string | null) => (amount === null ? 'no limit' : `${amount} ${record.symbol}`)
  const used = (paid: string, held: string, max: string | null, left: string | null) =>
    `${paid} ${record.symbol} paid, ${held} held, ${max === null ? 'no limit' : `${left} left of ${max}`}`
  const { auto_approve_below: below } = record
  const rows = [
    ['Per call', most(record.per_call)],
    ['Per seller per day', most(record.per_seller)],
    ['Today', used(record.paid_today, record.held_today, record.per_day, record.left_today)],
    ['This month', used(record.paid_month, record.held_month, record.per_month, record.left_month)],
    ['Approval', below === null ? 'never needed' : `at ${below} ${record.symbol} or more`],
    ['Buy only from', record.allow.length === 0 ? 'anyone' : record.allow.join(', ')],
    ['Never buy from', record.deny.length === 0 ? 'nobody' : record.deny.join(', ')],
  ]
  return columns(rows.map(([name = '', value = '']) => [bold(name), printableLine(value, 400)]))
}
