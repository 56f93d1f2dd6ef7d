import { expect, test } from 'vitest'
import { alertsOf } from './alerts.ts'
import type { AgentStats, Approval, Budget, NodeStatus, OwnAgent, PaymentRecord, Stats } from './api/types.ts'

const status = {
  connected_peers: 1,
  agents: { local: 1, known: 2 },
  reachability: { state: 'public', addresses: [], relays: [] },
  settlement: { pending: 0, failed: 0 },
} as unknown as NodeStatus
const titles = (seen: Parameters<typeof alertsOf>[0]) => alertsOf(seen).map(({ title }) => title)

test('a node that is well says nothing', () => {
  expect(alertsOf({ status })).toEqual([])
})

test('T20 the operator is told what needs a person, the urgent first, each with a fix', () => {
  const seen = alertsOf({
    status: {
      ...status,
      connected_peers: 0,
      settlement: { pending: 0, failed: 2 },
      reachability: { state: 'unreachable', addresses: [], relays: [], reason: 'no port is open.', fix: 'open one' },
    },
    approvals: [{} as Approval],
    agents: [{ id: 'x', name: 'Draft', notice: 'set OPENAI_API_KEY', paused: false } as OwnAgent],
    stats: { agents: [{ agent_id: 'y', name: 'Print', calls: 10, failed: 4 } as AgentStats] } as Stats,
    budget: { left_today: '0', spent_today: '5', symbol: 'USDC' } as Budget,
    balanceError: new Error('no RPC is configured.'),
  })
  expect(seen.map(({ title }) => title)).toEqual([
    '2 payments were not settled',
    'Buyers cannot reach this node',
    'Draft cannot work',
    'Print fails often: 4 of 10 calls',
    'A purchase waits for your approval',
    'This node is connected to no peer',
    'The chain does not answer',
    'The budget of today is used up',
  ])
  expect(seen.every(({ fix, to, action }) => fix !== '' && to.startsWith('/') && action !== '')).toBe(true)
})

test('T20 an outbox whose attempts fail is told of, one that has just begun is not', () => {
  const waiting = { ...status, settlement: { pending: 1, failed: 0 } } as NodeStatus
  const payment = (attempts: number) => ({ attempts, error: 'no answer' }) as PaymentRecord
  expect(titles({ status: waiting, owed: [payment(1)] })).toEqual([])
  for (const attempts of [0, 2])
    expect(titles({ status: waiting, owed: [payment(attempts)] })).toEqual(['A payment waits, as settlement fails'])
})

test('a paused agent, and one that failed once, are no alert', () => {
  const paused = { id: 'x', name: 'Draft', notice: 'set OPENAI_API_KEY', paused: true } as OwnAgent
  const once = { agents: [{ agent_id: 'y', name: 'Print', calls: 3, failed: 1 } as AgentStats] } as Stats
  expect(titles({ status, agents: [paused], stats: once })).toEqual([])
})
