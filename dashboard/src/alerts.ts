import type {
  AgentStats,
  Approval,
  Budget,
  NodeStatus,
  OwnAgent,
  PaymentRecord,
  Stats,
  WalletBalance,
} from './api/types.ts'
import { money } from './format.ts'

/** Something that wants a person, and what they can do. */
export type Alert = { tone: 'bad' | 'warn'; title: string; fix: string; to: string; action: string }

export type Seen = {
  status?: NodeStatus | undefined
  stats?: Stats | undefined
  approvals?: readonly Approval[] | undefined
  budget?: Budget | undefined
  balance?: WalletBalance | undefined
  balanceError?: Error | undefined
  agents?: readonly OwnAgent[] | undefined
  /** Payments that this node is owed. */
  owed?: readonly PaymentRecord[] | undefined
}

const FAILING_SHARE = 0.2
const FAILING_CALLS_MIN = 5
/** One failed attempt is nothing: the second is made a second later. */
const STUCK_ATTEMPTS = 2
const PENDING_MANY = 20

/** The most urgent first. */
export function alertsOf({
  status,
  stats,
  approvals = [],
  budget,
  balance,
  balanceError,
  agents = [],
  owed = [],
}: Seen): Alert[] {
  const alerts: Alert[] = []
  const add = (tone: Alert['tone'], title: string, fix: string, to: string, action: string) =>
    alerts.push({ tone, title, fix, to, action })

  if (approvals.length > 0) {
    const what = approvals.length === 1 ? 'A purchase waits' : `${approvals.length} purchases wait`
    add('warn', `${what} for your approval`, 'Approve or deny it before its time runs out.', '/approvals', 'Decide')
  }
  if (status !== undefined) {
    const { pending, failed } = status.settlement
    if (failed > 0) {
      const what = failed === 1 ? 'One payment was' : `${failed} payments were`
      add('bad', `${what} not settled`, 'You worked and were not paid. See why, and try again.', '/payments', 'See why')
    }
    // No attempt counts while nobody is reached who could settle: that is worse than one that failed.
    const stuck = owed.find(
      ({ attempts = 0, error }) => error !== undefined && (attempts === 0 || attempts >= STUCK_ATTEMPTS),
    )
    if (stuck !== undefined) {
      const what = pending === 1 ? 'A payment waits' : `${pending} payments wait`
      const fix = `${stuck.error}. Check the facilitator and the RPC endpoint with: stoa doctor.`
      add('bad', `${what}, as settlement fails`, fix, '/payments', 'See the outbox')
    } else if (pending > PENDING_MANY) {
      const fix = 'Check that the facilitator and the RPC endpoint answer: stoa doctor.'
      add('warn', `${pending} payments wait for settlement`, fix, '/payments', 'See the outbox')
    }
    const { state, reason, fix } = status.reachability
    if (state === 'unreachable' && status.agents.local > 0) {
      const why = reason ?? 'Buyers outside this network cannot call your agents.'
      add('bad', 'Buyers cannot reach this node', `${why} ${fix ?? ''}`.trim(), '/network', 'How to improve it')
    }
    if (status.search !== undefined && status.search.met === 0 && status.connected_peers > 0) {
      const { tried, fix = '' } = status.search
      add(
        'warn',
        'This node has not found the market yet',
        `It tries ${tried.join(', ')}. ${fix}`,
        '/network',
        'See the network',
      )
    }
    if (status.connected_peers === 0) {
      const { tried = [], fix = 'Start it with --bootstrap and a peer’s address.' } = status.search ?? {}
      const how = `It neither finds nor sells until it meets one. It tries ${tried.join(', ') || 'nothing'}. ${fix}`
      add('warn', 'This node is connected to no peer', how, '/network', 'See the network')
    }
  }
  for (const { id, name, notice, paused } of agents) {
    if (notice === undefined || paused) continue
    add('bad', `${name} cannot work`, notice, `/agents/${id}`, 'See the agent')
  }
  for (const agent of (stats?.agents ?? []).filter(isFailing)) {
    // Why it fails has been said.
    if (agents.some(({ id, notice }) => id === agent.agent_id && notice !== undefined)) continue
    const title = `${agent.name ?? 'An agent'} fails often: ${agent.failed} of ${agent.calls} calls`
    add('bad', title, 'Test it, and look at the errors of its executions.', `/agents/${agent.agent_id}`, 'Test it')
  }
  if (balanceError !== undefined) {
    const fix = `${balanceError.message} Payments cannot be confirmed without it.`
    add('warn', 'The chain does not answer', fix, '/wallet', 'See the wallet')
  } else if (balance?.balance_atomic === '0' && status?.agents.local === 0) {
    const fix = `Send USDC to the wallet’s address to buy from paid agents.`
    add('warn', 'The wallet is empty', fix, '/wallet', 'Show the address')
  }
  if (budget?.left_today !== undefined && budget.left_today !== null && Number(budget.left_today) === 0) {
    const fix = `${money(budget.spent_today)} ${budget.symbol} were spent. Raise the limit, or wait for tomorrow.`
    add('warn', 'The budget of today is used up', fix, '/wallet', 'Change the budget')
  }
  return alerts.sort((a, b) => Number(a.tone === 'warn') - Number(b.tone === 'warn'))
}

function isFailing({ calls, failed }: AgentStats): boolean {
  return calls >= FAILING_CALLS_MIN && failed / calls >= FAILING_SHARE
}
