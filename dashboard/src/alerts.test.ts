import { expect, test } from 'vitest'
import { alertsOf } from './alerts.ts'
import type { Alarm, Approval, Budget, NodeStatus } from './api/types.ts'

const status = { connected_peers: 1, agents: { local: 1, known: 2 } } as unknown as NodeStatus

function alarm(kind: Alarm['kind'], severity: Alarm['severity'], title: string, rest: Partial<Alarm> = {}): Alarm {
  return { id: kind, kind, severity, title, text: 'Why, and what to do.', count: 1, mark: '1', ...rest }
}

test('a healthy node has no alerts', () => {
  expect(alertsOf({ status, alarms: [] })).toEqual([])
})

test('T20 alerts show what needs a person, the most urgent first, each with a fix', () => {
  const seen = alertsOf({
    status: { ...status, search: { met: 0, tried: ['the public DHT'] } } as NodeStatus,
    alarms: [
      alarm('no_peers', 'warn', 'This node is connected to no peer'),
      alarm('work_unpaid', 'bad', '2 calls were worked for and never paid', { amount: '0.02' }),
      alarm('agent_broken', 'bad', 'Draft cannot work', { agent_id: 'x' }),
    ],
    approvals: [{} as Approval],
    budget: { left_today: '0', spent_today: '5', symbol: 'USDC' } as Budget,
    balanceError: new Error('no RPC is configured'),
  })
  expect(seen.map(({ title, to }) => [title, to])).toEqual([
    ['2 calls were worked for and never paid: 0.02 USDC', '/payments?book=lost'],
    ['Draft cannot work', '/agents/x'],
    ['A purchase waits for your approval', '/approvals'],
    ['This node is connected to no peer', '/network'],
    ['This node has not found the market yet', '/network'],
    ['The chain does not answer', '/wallet'],
    ['Today’s budget is used up', '/wallet'],
  ])
  expect(seen.every(({ fix, action }) => /[.]$|[.] $/.test(fix) && action !== '')).toBe(true)
})

test('a process that was lost is an alert until it is back', () => {
  const of = (missing: number) => alertsOf({ status: { ...status, processes: { alive: 2, missing } }, alarms: [] })
  expect(of(0)).toEqual([])
  expect(of(2)).toMatchObject([{ tone: 'warn', title: '2 processes of this seller were lost', to: '/machines' }])
})

test('D42 an alarm can be dismissed up to its mark; a waiting decision cannot be dismissed', () => {
  const seen = alertsOf({ alarms: [alarm('work_unpaid', 'bad', 'lost', { mark: '7' })], approvals: [{} as Approval] })
  expect(seen.map(({ alarm }) => alarm)).toEqual([{ id: 'work_unpaid', mark: '7' }, undefined])
})
