import type { ApprovalRecord } from '../schema/approval.ts'
import { approvalStatuses } from '../schema/approval.ts'
import { type Context, command, commonOptions, option } from './command.ts'
import { exitCodes, UsageError } from './exit-code.ts'
import { age, oneOf, table } from './market-text.ts'
import { moneyNode } from './remote-node.ts'
import { printableLine } from './terminal-text.ts'

const APPROVAL = { name: 'id', description: 'the approval, as `stoa approvals list` shows it' }

export const approvalsList = command({
  name: 'approvals list',
  summary: 'Purchases that wait for your approval',
  details:
    'What costs as much as stoa budget --auto-approve-below says, or more, waits here before anything is signed.',
  examples: ['stoa approvals list', 'stoa approvals list --status denied --json'],
  options: {
    status: option(
      '--status <status>',
      `one of ${approvalStatuses.join(', ')} (default: pending)`,
      oneOf(approvalStatuses),
    ),
    ...commonOptions,
  },
  async run(context, { status = 'pending', ...flags }) {
    const node = await moneyNode(context, flags)
    const approvals = await node.approvals({ status }, { signal: context.io.signal })
    if (context.json) context.printJson(approvals)
    else if (approvals.length === 0) context.print(`no approvals are ${status}`)
    else show(context, approvals)
    return exitCodes.done
  },
})

export const approvalsApprove = command({
  name: 'approvals approve',
  summary: 'Approve a purchase, which then executes in the background',
  examples: ['stoa approvals approve 4ad1f0c2-…'],
  options: { ...commonOptions },
  argument: APPROVAL,
  async run(context, flags, id) {
    const approval = await decide(context, flags, id, 'approve')
    const { order_id, amount, agent_name } = approval
    const said = `approved: ${agent_name} for ${amount} USDC; its result: stoa order show ${order_id} --wait`
    if (!context.json) context.print(printableLine(said, 300))
    return exitCodes.done
  },
})

export const approvalsDeny = command({
  name: 'approvals deny',
  summary: 'Deny a purchase; nothing is paid',
  examples: ['stoa approvals deny 4ad1f0c2-…'],
  options: { ...commonOptions },
  argument: APPROVAL,
  async run(context, flags, id) {
    const { agent_name, amount } = await decide(context, flags, id, 'deny')
    if (!context.json) context.print(printableLine(`denied: ${agent_name} for ${amount} USDC`, 300))
    return exitCodes.done
  },
})

async function decide(
  context: Context,
  flags: { dataDir?: string | undefined },
  id: string | undefined,
  verdict: 'approve' | 'deny',
): Promise<ApprovalRecord> {
  if (id === undefined) throw new UsageError('name the approval: stoa approvals list shows those that wait')
  const node = await moneyNode(context, flags)
  const approval = await node.decideApproval(id, verdict, { signal: context.io.signal })
  if (context.json) context.printJson(approval)
  return approval
}

function show(context: Context, approvals: readonly ApprovalRecord[]): void {
  const now = context.parts.clock.now()
  const rows = approvals.map((approval) => [
    approval.id,
    `${approval.amount} USDC`,
    age(approval.created_at, now),
    approval.status === 'pending'
      ? `${Math.max(0, Math.ceil((Date.parse(approval.expires_at) - now) / 60_000))} min`
      : '',
    printableLine(approval.agent_name),
  ])
  for (const line of table(['APPROVAL', 'AMOUNT', 'AGE', 'LEFT', 'AGENT'], rows, context)) context.print(line)
}
