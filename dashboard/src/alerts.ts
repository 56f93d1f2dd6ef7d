import type { Alarm, Approval, Budget, NodeStatus, WalletBalance } from './api/types.ts'
import { amount, ended, sentence } from './format.ts'

/** An event that needs a person, and the possible action. `alarm`: the alarm to dismiss, and up to which mark. */
export type Alert = {
  tone: 'bad' | 'warn'
  title: string
  fix: string
  to: string
  action: string
  alarm?: Pick<Alarm, 'id' | 'mark'>
}

export type AlertSources = {
  alarms?: readonly Alarm[] | undefined
  status?: NodeStatus | undefined
  approvals?: readonly Approval[] | undefined
  budget?: Budget | undefined
  balance?: WalletBalance | undefined
  balanceError?: Error | undefined
}

/** Alerts, the most urgent first. The node's alarms (D42) come before alerts that the page finds itself. */
export function alertsOf({
  alarms = [],
  status,
  approvals = [],
  budget,
  balance,
  balanceError,
}: AlertSources): Alert[] {
  const alerts: Alert[] = []
  const add = (tone: Alert['tone'], title: string, fix: string, to: string, action: string) =>
    alerts.push({ tone, title, fix, to, action })

  if (approvals.length > 0) {
    const what = approvals.length === 1 ? 'A purchase waits' : `${approvals.length} purchases wait`
    add('warn', `${what} for your approval`, 'Approve or deny it before it expires.', '/approvals', 'Decide')
  }
  for (const alarm of alarms) alerts.push(alertOf(alarm))
  if (status?.search !== undefined && status.search.met === 0 && status.connected_peers > 0) {
    const { tried, fix = '' } = status.search
    const how = `Tried so far: ${tried.join(', ')}. ${sentence(fix)}`
    add('warn', 'This node has not found the market yet', how, '/network', 'See the network')
  }
  const missing = status?.processes?.missing ?? 0
  if (missing > 0) {
    const what = missing === 1 ? 'A process of this seller was lost' : `${missing} processes of this seller were lost`
    const fix = 'The others have taken over its work. Start it again on its machine.'
    add('warn', what, fix, '/machines', 'See the machines')
  }
  // An RPC of another chain has an alarm of its own.
  if (balanceError !== undefined && status?.chain_wrong === undefined) {
    const fix = `${ended(sentence(balanceError.message))} Without the chain, the node cannot confirm payments.`
    add('warn', 'The chain does not answer', fix, '/wallet', 'See the wallet')
  } else if (balance?.balance_atomic === '0' && status?.agents.local === 0) {
    const fix = 'To buy from paid agents, send USDC to the address of the wallet.'
    add('warn', 'The wallet is empty', fix, '/wallet', 'Show the address')
  }
  if (budget?.left_today !== undefined && budget.left_today !== null && Number(budget.left_today) === 0) {
    const fix = `${amount(budget.spent_today, budget.symbol)} is paid or held today. Raise the limit, or wait until tomorrow (UTC).`
    add('warn', 'Today’s budget is used up', fix, '/wallet', 'Change the budget')
  }
  return alerts.sort((a, b) => Number(a.tone === 'warn') - Number(b.tone === 'warn'))
}

/** An alarm of the node, with the page where the user can act. */
export function alertOf(alarm: Alarm): Alert {
  const { id, mark, kind, severity, title, text, agent_id } = alarm
  const about = { tone: severity, title, fix: text, alarm: { id, mark } }
  const ofAgent = agent_id === undefined ? '/agents' : `/agents/${agent_id}`
  switch (kind) {
    case 'work_unpaid':
      return { ...about, title: withAmount(alarm), to: '/payments?book=lost', action: 'See the payments' }
    case 'settlement_stuck':
      return { ...about, title: withAmount(alarm), to: '/payments?book=owed', action: 'See the outbox' }
    case 'channel_withdrawal':
    case 'channel_claim_failing':
    case 'channel_claim_late':
    case 'channel_chain_behind':
    case 'channel_lost':
    case 'channel_stopped':
    case 'channel_exit_failing':
    case 'channel_exit_pending':
    case 'channel_deposit_pending':
      return { ...about, title: withAmount(alarm), to: '/channels', action: 'See the channels' }
    case 'agent_broken':
      return { ...about, to: ofAgent, action: 'See the agent' }
    case 'agent_failing':
      return { ...about, to: ofAgent, action: 'Test the agent' }
    case 'wallet_changed':
      return { ...about, to: '/wallet', action: 'See the wallet' }
    case 'processes_differ':
      return { ...about, to: '/machines', action: 'See the machines' }
    case 'trading_stopped':
    case 'ledger_restored':
    case 'change_refused':
    case 'chain_wrong':
      return { ...about, to: '/settings', action: 'See the node' }
    default:
      return { ...about, to: '/network', action: 'See the network' }
  }
}

function withAmount({ title, amount: decimal }: Alarm): string {
  return decimal === undefined ? title : `${title}: ${amount(decimal)}`
}
