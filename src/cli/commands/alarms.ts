import type { AlarmRecord } from '../../schema/alarm.ts'
import { command, flag } from '../command.ts'
import { UsageError } from '../exit-code.ts'
import { moneyNode } from '../node-access/remote-node.ts'
import { printList } from '../text/market-text.ts'
import { printableLine } from '../text/terminal-text.ts'

const ALARM = { name: 'ids', description: 'ids from `stoa alarms list`, separated by commas' }

export const alarmsList = command({
  name: 'alarms list',
  summary: 'List problems of the running node that need you: unpaid work, failing settlement, failing agents, no peers',
  details: 'Alarms are grouped by reason. A dismissed alarm returns only when something new happens.',
  examples: ['stoa alarms list', 'stoa alarms list --all --json'],
  options: { all: flag('--all', 'also show dismissed alarms') },
  async run(context, { all = false, ...flags }) {
    const node = await moneyNode(context, flags)
    const alarms = await node.alarms({ dismissed: all }, { signal: context.io.signal })
    printList(context, alarms, {
      none: 'no alarms',
      headings: ['ALARM', '', 'USDC', 'WHAT'],
      // The end of the text says what to do.
      wraps: true,
      cells: ({ id, severity, dismissed_at, amount = '', title, text }) => {
        const state = dismissed_at === undefined ? severity : 'dismissed'
        return [id, state, amount, printableLine(`${title}. ${text}`, 1000)]
      },
    })
  },
})

export const alarmsDismiss = command({
  name: 'alarms dismiss',
  summary: 'Dismiss alarms; an alarm returns only when something new happens',
  examples: ['stoa alarms dismiss work_unpaid-1f0c2a7d9b3e', 'stoa alarms dismiss --all'],
  options: { all: flag('--all', 'dismiss all alarms') },
  argument: ALARM,
  async run(context, flags, given) {
    if (given === undefined && flags.all !== true) {
      throw new UsageError('the ids of the alarms are missing: `stoa alarms list` lists the ids; --all dismisses all')
    }
    const node = await moneyNode(context, flags)
    const { signal } = context.io
    const named = given?.split(',').filter((id) => id !== '')
    // Dismiss only what was shown. An alarm that arrives in between stays.
    const shown = (await node.alarms({}, { signal })).map(({ id, mark }) => ({ id, mark }))
    const wanted = named?.map((id) => shown.find((alarm) => alarm.id === id) ?? { id, mark: undefined }) ?? shown
    const dismissed: AlarmRecord[] = []
    for (const { id, mark } of wanted) dismissed.push(await node.dismissAlarm(id, mark, { signal }))
    const lines = dismissed.map(({ title }) => printableLine(`dismissed: ${title}`, 300))
    context.printResult(dismissed, lines.length === 0 ? 'no alarms' : lines)
  },
})
