import { AlarmParams, AlarmQuery, AlarmRecord, AlarmRecords, DismissAlarm } from '../../../schema/alarm.ts'
import { ownerSeen } from '../../../schema/caller.ts'
import { type Operation, operation } from '../operation.ts'

export type AlarmsPart = {
  list(options: { dismissed?: boolean | undefined }): Promise<AlarmRecord[]>
  dismiss(id: string, mark: string | undefined): Promise<AlarmRecord>
}

const row = { tags: ['node'], access: 'private' } as const

export function alarmRoutes(alarms: AlarmsPart): Operation[] {
  return [
    operation({
      ...row,
      id: 'listAlarms',
      method: 'GET',
      path: '/alarms',
      summary: 'What needs a person, grouped, the most urgent first',
      description:
        'Payments that were never settled, settlement that fails, agents that cannot run or fail often, a database ' +
        'that does not take changes, and a node that no peer can reach. A token of `execute` or `spend` sees no alarms: they concern the node and all who ' +
        'use it.',
      scope: 'read',
      query: AlarmQuery,
      response: AlarmRecords,
      handler: ({ query, caller }) => (ownerSeen(caller) === undefined ? alarms.list(query) : []),
    }),
    operation({
      ...row,
      id: 'dismissAlarm',
      method: 'POST',
      path: '/alarms/{id}/dismiss',
      summary: 'Dismiss an alarm',
      description: 'The alarm returns only when something is new: another payment, more failures, another reason.',
      scope: 'admin',
      params: AlarmParams,
      body: DismissAlarm,
      example: {},
      response: AlarmRecord,
      errors: ['UNKNOWN_ALARM', 'STORE_WRITE_FAILED'],
      handler: ({ params, body }) => alarms.dismiss(params.id, body.mark),
    }),
  ]
}
