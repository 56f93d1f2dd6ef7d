import * as z from 'zod'
import { Switch } from './search.ts'

export const alarmKinds = [
  'trading_stopped',
  'work_unpaid',
  'settlement_stuck',
  'agent_broken',
  'agent_failing',
  'unreachable',
  'no_peers',
] as const
const AlarmKind = z.enum(alarmKinds).meta({
  description:
    '`trading_stopped`: nothing is bought or sold, as another node uses this identity; `work_unpaid`: payments that are lost, one alarm for each reason; `settlement_stuck`: payments owed whose attempts fail; ' +
    '`agent_broken`: an agent that cannot run; `agent_failing`: one that fails often; `unreachable`: nobody can dial this ' +
    'node; `no_peers`: it is connected to nobody',
})
export type AlarmKind = z.infer<typeof AlarmKind>

export const AlarmParams = z.strictObject({
  id: z.string().min(1).max(100).meta({ description: 'identifier of an alarm' }),
})
export const AlarmQuery = z.strictObject({
  dismissed: Switch.meta({ description: 'also those that were dismissed' }),
})

/** The body of POST /alarms/{id}/dismiss. */
export const DismissAlarm = z
  .strictObject({
    mark: z.string().min(1).max(100).optional().meta({
      description: 'as the alarm showed it: what came after it stays an alarm. Without it all of now is dismissed',
    }),
  })
  .meta({ id: 'DismissAlarm' })

/** A condition of this node that needs a person. */
export const AlarmRecord = z
  .object({
    id: z.string().meta({ description: 'the same for the same thing, at every look' }),
    kind: AlarmKind,
    severity: z.enum(['bad', 'warn']),
    title: z.string(),
    text: z.string().meta({ description: 'why, and what to do' }),
    count: z.int().meta({ description: 'how many payments or calls it groups: those since it was last dismissed' }),
    amount: z.string().optional().meta({ description: 'of payments: what they come to, in USDC as decimal text' }),
    amount_atomic: z.string().optional(),
    agent_id: z.string().optional(),
    agent_name: z.string().optional(),
    mark: z.string().meta({ description: 'of the newest that it groups' }),
    dismissed_at: z
      .string()
      .optional()
      .meta({ description: 'only of one that was dismissed, and has nothing new since' }),
  })
  .meta({ id: 'Alarm', description: 'Something of this node that wants a person, grouped.' })
export type AlarmRecord = z.infer<typeof AlarmRecord>
export const AlarmRecords = z.array(AlarmRecord)
