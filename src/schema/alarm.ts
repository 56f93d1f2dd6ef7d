import * as z from 'zod'
import { Switch } from './search.ts'

export const alarmKinds = [
  'trading_stopped',
  'work_unpaid',
  'settlement_stuck',
  'change_refused',
  'chain_wrong',
  'channel_withdrawal',
  'channel_claim_failing',
  'channel_claim_late',
  'channel_chain_behind',
  'channel_lost',
  'channel_stopped',
  'channel_exit_failing',
  'channel_exit_pending',
  'channel_deposit_pending',
  'agent_broken',
  'agent_failing',
  'processes_differ',
  'wallet_changed',
  'ledger_restored',
  'unreachable',
  'no_peers',
] as const
const AlarmKind = z.enum(alarmKinds).meta({
  description:
    '`trading_stopped`: the node does not buy or sell, because another node uses its identity; `work_unpaid`: lost payments, one alarm per reason; `settlement_stuck`: owed payments whose settlement fails; `change_refused`: the database of the ledger could not write a change within the last minute; `chain_wrong`: the RPC endpoint serves another chain than the network of the node; ' +
    '`channel_withdrawal`: a payer takes money out of a payment channel that owes some; `channel_claim_failing`: what channels owe cannot be claimed or settled; `channel_claim_late`: a channel owes for more than a day; `channel_chain_behind`: the RPC shows an old block, so no call on a channel is taken; `channel_lost`: charges that no deposit covers any more; ' +
    '`channel_stopped`: a seller stated what cannot be true, and is not paid ahead any more; `channel_exit_failing`: money cannot be taken out of a channel; ' +
    '`channel_exit_pending`: a withdrawal of this node waits for its delay; `channel_deposit_pending`: a deposit did not reach the chain yet; ' +
    '`agent_broken`: an agent cannot run; `agent_failing`: an agent fails often; `processes_differ`: the processes of this seller have other agents or budgets than one another; `wallet_changed`: the node uses another wallet than before; `ledger_restored`: the ledger is an older copy than the node had; `unreachable`: nobody can dial this ' +
    'node; `no_peers`: the node has no connected peers',
})
export type AlarmKind = z.infer<typeof AlarmKind>

export const AlarmParams = z.strictObject({
  id: z.string().min(1).max(100).meta({ description: 'id of the alarm' }),
})
export const AlarmQuery = z.strictObject({
  dismissed: Switch.meta({ description: 'true: also return dismissed alarms' }),
})

/** The body of POST /alarms/{id}/dismiss. */
export const DismissAlarm = z
  .strictObject({
    mark: z.string().min(1).max(100).optional().meta({
      description:
        '`mark` of the alarm that you saw; what came later stays an alarm. Default: everything until now is dismissed',
    }),
  })
  .meta({ id: 'DismissAlarm' })

export const AlarmRecord = z
  .object({
    id: z.string().meta({ description: 'stays the same while the alarm exists' }),
    kind: AlarmKind,
    severity: z.enum(['bad', 'warn']),
    title: z.string(),
    text: z.string().meta({ description: 'why, and what to do' }),
    count: z.int().meta({ description: 'number of payments or calls in this alarm, counted since its last dismissal' }),
    amount: z.string().optional().meta({ description: 'sum of the payments in this alarm, in USDC as decimal text' }),
    amount_atomic: z.string().optional(),
    agent_id: z.string().optional(),
    agent_name: z.string().optional(),
    mark: z.string().meta({ description: 'marks the newest payment or call in this alarm' }),
    dismissed_at: z
      .string()
      .optional()
      .meta({ description: 'present only if the alarm was dismissed and nothing new happened since' }),
  })
  .meta({ id: 'Alarm', description: 'A problem of this node that needs a person, grouped by reason.' })
export type AlarmRecord = z.infer<typeof AlarmRecord>
export const AlarmRecords = z.array(AlarmRecord)
