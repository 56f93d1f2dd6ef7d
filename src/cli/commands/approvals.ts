import { type ApprovalRecord, approvalStatuses } from '../../schema/approval.ts'
import { type Context, command, flag, option } from '../command.ts'
import { UsageError } from '../exit-code.ts'
import { approvalIdOf } from '../node-access/references.ts'
import { moneyNode } from '../node-access/remote-node.ts'
import { age, oneOf, printList } from '../text/market-text.ts'
import { printableLine } from '../text/terminal-text.ts'

const AT_ONCE = 100
const TASK_LENGTH = 40
const APPROVAL = {
  name: 'ids',
  description: 'ids from `stoa approvals list`, or their beginnings, separated by commas',
}

export const approvalsList = command({
  name: 'approvals list',
  summary: 'List purchases that wait for your approval',
  details:
    'A call that costs the amount of stoa budget --auto-approve-below or more waits here. The node signs nothing before you approve.',
  examples: ['stoa approvals list', 'stoa approvals list --status denied --json'],
  options: {
    status: option(
      '--status <status>',
      `one of ${approvalStatuses.join(', ')} (default: pending)`,
      oneOf(approvalStatuses),
    ),
  },
  async run(context, { status = 'pending', ...flags }) {
    const node = await moneyNode(context, flags)
    const approvals = await node.approvals({ status }, { signal: context.io.signal })
    const now = context.parts.clock.now()
    printList(context, approvals, {
      none: `no approvals are ${status}`,
      headings: ['APPROVAL', 'AMOUNT', 'AGE', 'TIME LEFT', 'BUDGET AFTER', 'FOR', 'AGENT', 'TASK'],
      cells: (approval) => [
        approval.id,
        `${approval.amount} USDC`,
        age(approval.created_at, now),
        approval.status === 'pending'
          ? `${Math.max(0, Math.ceil((Date.parse(approval.expires_at) - now) / 60_000))} min`
          : '',
        approval.budget_after?.left_today ? `${approval.budget_after.left_today} USDC` : 'no limit',
        printableLine(requesterText(approval), 24),
        printableLine(approval.agent_name, 32),
        printableLine(approval.task, TASK_LENGTH),
      ],
    })
  },
})

const all = { all: flag('--all', 'all pending approvals') } as const

export const approvalsApprove = command({
  name: 'approvals approve',
  summary: 'Approve purchases; they then run in the background',
  examples: [
    'stoa approvals approve 4ad1f0c2-…',
    'stoa approvals approve 4ad1f0c2-…,9b7e2a10-…',
    'stoa approvals approve --all',
  ],
  options: all,
  argument: APPROVAL,
  async run(context, flags, ids) {
    for (const approval of await decide(context, flags, ids, 'approved')) {
      const { order_id, amount, agent_name, status, id } = approval
      const done = `approved ${agent_name} for ${amount} USDC; get the result with stoa order show ${order_id} --wait`
      const said = status === 'approved' ? done : `approval ${id} is ${status} and cannot be changed`
      if (!context.json) context.print(printableLine(said, 300))
    }
  },
})

export const approvalsDeny = command({
  name: 'approvals deny',
  summary: 'Deny purchases; nothing is paid',
  examples: ['stoa approvals deny 4ad1f0c2-…', 'stoa approvals deny --all'],
  options: all,
  argument: APPROVAL,
  async run(context, flags, ids) {
    for (const { agent_name, amount, status, id } of await decide(context, flags, ids, 'denied')) {
      const done = `denied: ${agent_name} for ${amount} USDC`
      const said = status === 'denied' ? done : `approval ${id} is ${status} and cannot be changed`
      if (!context.json) context.print(printableLine(said, 300))
    }
  },
})

async function decide(
  context: Context,
  flags: { dataDir?: string | undefined; all?: boolean | undefined },
  given: string | undefined,
  verdict: 'approved' | 'denied',
): Promise<ApprovalRecord[]> {
  if (given === undefined && flags.all !== true) {
    throw new UsageError('the ids of the approvals are missing: `stoa approvals list` lists the ids; --all takes all')
  }
  const node = await moneyNode(context, flags)
  const { signal } = context.io
  const typed = given?.split(',').filter((id) => id !== '')
  const named = typed && (await Promise.all(typed.map((id) => approvalIdOf(node, id, { signal }))))
  const ids = named ?? (await node.approvals({ status: 'pending' }, { signal })).map(({ id }) => id)
  const decided: ApprovalRecord[] = []
  const [only] = ids
  if (ids.length === 1 && only !== undefined) {
    decided.push(await node.decideApproval(only, verdict === 'approved' ? 'approve' : 'deny', { signal }))
  } else {
    for (let from = 0; from < ids.length; from += AT_ONCE) {
      decided.push(...(await node.decideApprovals(ids.slice(from, from + AT_ONCE), verdict, { signal })))
    }
  }
  if (context.json) context.printJson(decided.length === 1 ? decided[0] : decided)
  else if (decided.length === 0) context.print('no approvals are pending')
  return decided
}

function requesterText({ requester, workflow_id }: ApprovalRecord): string {
  const who = requester.kind === 'operator' ? 'you' : (requester.token_name ?? requester.token_id ?? 'a token')
  return workflow_id === undefined ? who : `${who}, workflow`
}
