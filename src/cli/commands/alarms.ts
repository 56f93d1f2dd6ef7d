import type { AlarmRecord } from '../../schema/alarm.ts'
import { command, commonOptions, flag } from '../command.ts'
import { exitCodes, UsageError } from '../exit-code.ts'
import { moneyNode } from '../node-access/remote-node.ts'
import { table } from '../text/market-text.ts'
import { printableLine } from '../text/terminal-text.ts'

const ALARM = { name: 'ids', description: 'ids from `stoa alarms list`, separated by commas' }

export const alarmsList = command({
  name: 'alarms list',
  summary: 'List problems of the running node that need you: unpaid work, failing settlement, failing agents, no peers',
  details: 'Alarms are grouped by reason. A dismissed alarm returns only when something new happens.',
  examples: ['stoa alarms list', 'stoa alarms list --all --json'],
  options: { all: flag('--all', 'also show dismissed alarms'), ...commonOptions },
  async run(context, { all = false, ...flags }) {
    const node = await moneyNode(context, flags)
    const alarms = await node.alarms({ dismissed: all }, { signal: context.io.signal })
    if (context.json) context.printJson(alarms)
    else if (alarms.length === 0) context.print('no alarms')
    else {
      const rows = alarms.map((alarm) => [alarm.id, stateOf(alarm), alarm.amount ?? '', whatOf(alarm)])
      for (const line of table(['ALARM', '', 'USDC', 'WHAT'], rows, context)) context.print(line)
    }
    return exitCodes.done
  },
})

export const alarmsDismiss = command({
  name: 'alarms dismiss',
  summary: 'Dismiss alarms; an alarm returns only when something new happens',
  examples: ['stoa alarms dismiss work_unpaid-1f0c2a7d9b3e', 'stoa alarms dismiss --all'],
  options: { all: flag('--all', 'dismiss all alarms'), ...commonOptions },
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
    if (context.json) context.printJson(dismissed)
    else if (dismissed.length === 0) context.print('no alarms')
    else for (const alarm of dismissed) context.print(printableLine(`dismissed: ${alarm.title}`, 300))
    return exitCodes.done
  },
})

function stateOf({ severity, dismissed_at }: AlarmRecord): string {
  return dismissed_at === undefined ? severity : 'dismissed'
}

function whatOf({ title, text }: AlarmRecord): string {
  return printableLine(`${title}. ${text}`, 300)
}
