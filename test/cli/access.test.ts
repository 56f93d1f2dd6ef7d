import { expect, test } from 'vitest'
import type { ApprovalRecord } from '../../src/schema/approval.ts'
import type { BudgetRecord, ChangeBudget } from '../../src/schema/budget.ts'
import type { CreateToken, TokenRecord } from '../../src/schema/token.ts'
import { agentId, cli, peerId, runningNode, useDataDir } from './harness.ts'

const dataDir = useDataDir()

const token: TokenRecord = {
  ...{ id: 'abc', name: 'assistant', scope: 'spend', budget: '5', budget_atomic: '5000000' },
  ...{ per_day: null, per_day_atomic: null, spent: '1.5', spent_atomic: '1500000' },
  ...{ spent_today: '0', spent_today_atomic: '0', created_at: '2026-01-01T00:00:00.000Z' },
}
const approval: ApprovalRecord = {
  ...{ id: 'ap-1', order_id: 'o-1', agent_id: agentId, agent_name: 'Oracle\u001b[2J', seller_id: peerId },
  ...{
    amount: '0.5',
    amount_atomic: '500000',
    task: 'Say\u001b[2J it',
    task_length: 9,
    reason: 'dear',
    status: 'pending',
  },
  ...{ created_at: '2026-01-01T00:00:00.000Z', expires_at: '2126-01-01T00:00:00.000Z' },
  requester: { kind: 'token', token_id: 'abc', token_name: 'assistant' },
  budget_after: { left_today: '4.5', left_today_atomic: '4500000', left_month: null, left_month_atomic: null },
}
const budget: BudgetRecord = {
  ...{
    network: 'eip155:84532',
    network_kind: 'test' as const,
    asset: '0x',
    symbol: 'USDC',
    day: '2026-01-01',
    allow: [],
    deny: [peerId],
  },
  ...{ per_call: '1', per_call_atomic: '1000000', per_seller: null, per_seller_atomic: null },
  ...{ per_day: '5', per_day_atomic: '5000000', per_month: null, per_month_atomic: null },
  ...{
    auto_approve_below: '0.5',
    auto_approve_below_atomic: '500000',
    spent_today: '2',
    spent_today_atomic: '2000000',
  },
  ...{ spent_month: '2', spent_month_atomic: '2000000', left_today: '3', left_today_atomic: '3000000' },
  ...{ left_month: null, left_month_atomic: null },
  ...{ paid_today: '1.5', paid_today_atomic: '1500000', held_today: '0.5', held_today_atomic: '500000' },
  ...{ paid_month: '1.5', paid_month_atomic: '1500000', held_month: '0.5', held_month_atomic: '500000' },
}

test('token create prints only the token on standard output; list shows the spending', async () => {
  const wanted: CreateToken[] = []
  const { parts } = await runningNode(dataDir(), {
    createToken: async (asked) => {
      wanted.push(asked)
      return { ...token, token: 'stoa_abc.secret' }
    },
    tokens: async () => [token],
    revokeToken: async (id) => ({ ...token, id, revoked_at: '2026-01-02T00:00:00.000Z' }),
  })
  const options = { dataDir: dataDir(), parts }
  const made = await cli(['token', 'create', '--name', 'assistant', '--scope', 'spend', '--budget', '5'], options)
  expect(made).toMatchObject({ code: 0, stdout: 'stoa_abc.secret\n' })
  expect(wanted).toMatchObject([{ name: 'assistant', scope: 'spend', budget: 5_000_000n }])
  expect((await cli(['token', 'list'], options)).stdout).toMatch(/abc +spend +active +1\.5 of 5/)
  expect((await cli(['token', 'revoke', 'abc'], options)).stdout).toContain('revoked token abc (assistant)')
})

test.each([
  [['--name', 'a', '--scope', 'spend'], /--budget/],
  [['--name', 'a', '--scope', 'read', '--budget', '1'], /--scope spend/],
  [['--name', 'a', '--scope', 'root'], /one of read, execute, spend, admin/],
  [['--scope', 'read'], /--name/],
])('token create %j is refused before a node is asked', async (flags, said) => {
  const run = await cli(['token', 'create', ...flags], { dataDir: dataDir() })
  expect(run).toMatchObject({ code: 2, stderr: expect.stringMatching(said) })
})

test('approvals are listed without control sequences, approved and denied', async () => {
  const decided: string[][] = []
  const { parts } = await runningNode(dataDir(), {
    approvals: async () => [approval],
    decideApproval: async (id, verdict) => {
      decided.push([id, verdict])
      return { ...approval, status: verdict === 'approve' ? 'approved' : 'denied' }
    },
  })
  const options = { dataDir: dataDir(), parts }
  const listed = await cli(['approvals', 'list'], options)
  expect(listed.stdout).toMatch(/ap-1 +0\.5 USDC/)
  expect(listed.stdout).not.toContain('\u001b')
  expect((await cli(['approvals', 'approve', 'ap-1'], options)).stdout).toContain('stoa order show o-1 --wait')
  expect((await cli(['approvals', 'deny', 'ap-1'], options)).code).toBe(0)
  expect(decided).toEqual([
    ['ap-1', 'approve'],
    ['ap-1', 'deny'],
  ])
  expect((await cli(['approvals', 'approve'], options)).code).toBe(2)
})

test('an approval is named by the beginning of its id, if only one that waits begins so', async () => {
  const ids = ['277c2d31-b218-4ae0-b6c9-737f061f62cd', '277c9d31-b218-4ae0-b6c9-737f061f62ce']
  const decided: string[] = []
  const { parts } = await runningNode(dataDir(), {
    approvals: async () => ids.map((id) => ({ ...approval, id })),
    decideApproval: async (id) => {
      decided.push(id)
      return { ...approval, id, status: 'approved' }
    },
  })
  const approve = (id: string) => cli(['approvals', 'approve', id], { dataDir: dataDir(), parts })
  expect((await approve('277c2')).code).toBe(0)
  expect(await approve('277c')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('stoa approvals list --json'),
  })
  await approve('4f')
  expect(decided).toEqual([ids[0], '4f'])
})

test('ADR-13 several approvals are decided at once, named or all, a hundred per request', async () => {
  const asked: [number, string][] = []
  const pending = Array.from({ length: 150 }, (_, number) => ({ ...approval, id: `ap-${number}` }))
  const { parts } = await runningNode(dataDir(), {
    approvals: async () => pending,
    decideApprovals: async (ids, verdict) => {
      asked.push([ids.length, verdict])
      return ids.map((id) => ({ ...approval, id, status: id === 'ap-1' ? 'expired' : verdict }))
    },
  })
  const options = { dataDir: dataDir(), parts }
  const named = await cli(['approvals', 'approve', 'ap-0,ap-1'], options)
  expect(named.stdout).toMatch(/approved .*stoa order show[\s\S]*approval ap-1 is expired and cannot be changed/)
  const all = await cli(['approvals', 'deny', '--all'], options)
  expect(all.stdout.match(/^denied: /gm)).toHaveLength(149)
  expect(asked).toEqual([
    [2, 'approved'],
    [100, 'denied'],
    [50, 'denied'],
  ])
})

test('budget shows the limits and sends only changes', async () => {
  const changes: ChangeBudget[] = []
  const { parts } = await runningNode(dataDir(), {
    budget: async () => budget,
    changeBudget: async (change) => {
      changes.push(change)
      return budget
    },
  })
  const options = { dataDir: dataDir(), parts }
  expect((await cli(['budget'], options)).stdout).toMatch(
    /Today +1\.5 USDC paid, 0\.5 held, 3 left of 5[\s\S]*at 0\.5 USDC or more/,
  )
  await cli(['budget', '--per-month', 'none', '--auto-approve-below', '0.25', '--deny', 'a,b'], options)
  expect(JSON.parse(JSON.stringify(changes, (_, value) => (typeof value === 'bigint' ? `${value}` : value)))).toEqual([
    { per_month: null, auto_approve_below: '250000', deny: ['a', 'b'] },
  ])
})
