import { createHash } from 'node:crypto'
import { type Clock, isoTime } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { periodic } from '../lib/periodic.ts'
import { MarketError } from '../listings/market-error.ts'
import type { ChannelsSummary } from '../payments/channels/channels-summary.ts'
import type { AlarmKind, AlarmRecord } from '../schema/alarm.ts'
import { formatPrice } from '../schema/amount.ts'
import type { OwnAgent } from '../schema/own-agent.ts'
import type { AlarmStore, Dismissal, FailedPayments } from '../store/alarms.ts'
import type { StoredChannel } from '../store/buyer-channels.ts'
import { channelAlarms } from './channel-alarms.ts'
import { type Differences, namesText } from './differences.ts'
import { exitAlarms } from './exit-alarms.ts'
import {
  type AlarmStatus,
  changedWallet,
  refusedChange,
  restoredLedger,
  sentence,
  stoppedTrading,
  unreached,
  wrongChain,
} from './state-alarms.ts'

type AlarmsDeps = {
  clock: Clock
  logger: Logger
  store: AlarmStore
  /** Several processes may share the ledger, and each has states of its own. */
  isShared: boolean
  agents(): OwnAgent[]
  status(): AlarmStatus
  /** What the processes of this seller have configured in different ways. */
  differences(): Differences | undefined
  nameOf(agentId: string): string | undefined
  /** Undefined: this node takes no payment channels. */
  channels?(): ChannelsSummary | undefined
  /** The channels by which this node pays. */
  paying?(): Promise<StoredChannel[]>
}

/** Problems that need a person, grouped. A dismissed alarm returns only if something new happens (D42). */
export interface Alarms extends Service {
  /** Sorted by urgency, most urgent first. */
  list(options?: { dismissed?: boolean | undefined }): Promise<AlarmRecord[]>
  /** Number of alarms that are not dismissed. May be some seconds old. */
  count(): Promise<number>
  /** @throws MarketError UNKNOWN_ALARM */
  dismiss(id: string, mark?: string): Promise<AlarmRecord>
}

/** An agent fails often if this share of its latest calls failed. */
const FAILING_SHARE = 0.2
/** With fewer calls, one bad call would raise the alarm. */
const FAILING_CALLS_MIN = 5
/** Longest reason that an alarm shows, in characters. */
const REASON_LENGTH = 160
/** The status and metrics read the count often. It is computed again after this time. */
const COUNT_KEPT_MS = 5_000
/** How often dismissals of ended alarms are deleted. */
const LOOK_MS = 60_000
/**
 * How long a dismissal stays after any process last saw its state. Longer than a restart of a process, or a difference of
 * clocks.
 */
const HELD_MS = 10 * 60_000
/** Alarms about a state. When the state ends, its dismissal is deleted, so that the next occurrence alerts again. */
const states: readonly AlarmKind[] = [
  ...(['trading_stopped', 'settlement_stuck', 'agent_broken', 'processes_differ'] as const),
  ...(['change_refused', 'chain_wrong', 'wallet_changed', 'ledger_restored', 'unreachable', 'no_peers'] as const),
  ...([
    'channel_withdrawal',
    'channel_claim_failing',
    'channel_claim_late',
    'channel_chain_behind',
    'channel_lost',
  ] as const),
  ...(['channel_stopped', 'channel_exit_failing', 'channel_exit_pending', 'channel_deposit_pending'] as const),
]

type OpenAlarm = Omit<AlarmRecord, 'dismissed_at'>

export function createAlarms(deps: AlarmsDeps): Alarms {
  const { clock, store } = deps
  let counted: { count: Promise<number>; at: number } | undefined

  async function list({ dismissed: withDismissed = false } = {}): Promise<AlarmRecord[]> {
    const dismissals = await store.dismissals()
    const [unpaid, stuck, failing, paying] = await Promise.all([
      unpaidWork(store, dismissals),
      stuckPayments(store),
      failingAgents(deps, dismissals),
      deps.paying?.() ?? [],
    ])
    const found = [
      ...stoppedTrading(deps.status()),
      ...refusedChange(deps.status()),
      ...wrongChain(deps.status()),
      ...unpaid,
      ...stuck,
      ...brokenAgents(deps.agents()),
      ...failing,
      ...unlikeProcesses(deps.differences()),
      ...changedWallet(deps.status()),
      ...restoredLedger(deps.status()),
      ...unreached(deps.status()),
      ...channelAlarms(deps.channels?.()),
      ...exitAlarms(paying, clock.now()),
    ]
    return found
      .map((alarm) => {
        const dismissal = dismissals.get(alarm.id)
        const isOld = dismissal !== undefined && !isNewer(alarm, dismissal)
        return isOld ? { ...alarm, dismissed_at: isoTime(dismissal.at) } : alarm
      })
      .filter((alarm) => withDismissed || !('dismissed_at' in alarm))
      .sort((a, b) => Number(a.severity === 'warn') - Number(b.severity === 'warn'))
  }

  async function forgetOver(): Promise<void> {
    // First, so that an alarm which is raised and dismissed in between is not taken for an ended one.
    const dismissals = await store.dismissals()
    const holding = new Set((await list({ dismissed: true })).map(({ id }) => id))
    const ofStates = [...dismissals].filter(([id]) => isState(id))
    const held = ofStates.flatMap(([id]) => (deps.isShared && holding.has(id) ? [id] : []))
    if (held.length > 0) await store.hold(held, clock.now())
    // What does not hold here may hold at another process.
    const keptSince = deps.isShared ? clock.now() - HELD_MS : Number.POSITIVE_INFINITY
    const over = ofStates.filter(([id, { heldAt }]) => !holding.has(id) && heldAt < keptSince)
    if (over.length > 0) await store.forget(new Map(over))
  }

  return {
    ...periodic(
      { name: 'alarms', firstMs: LOOK_MS, everyMs: LOOK_MS },
      { work: forgetOver, onError: (error) => deps.logger.warn({ err: error }, 'alarms could not be checked') },
    ),
    list: (options) => list({ dismissed: options?.dismissed ?? false }),
    count() {
      const now = clock.now()
      if (counted === undefined || Math.abs(now - counted.at) > COUNT_KEPT_MS) {
        const count = list().then(({ length }) => length)
        const counting = { count, at: now }
        counted = counting
        count.catch(() => {
          if (counted === counting) counted = undefined
        })
      }
      return counted.count
    },
    async dismiss(id, mark) {
      const of = async () => (await list({ dismissed: true })).find((alarm) => alarm.id === id)
      const alarm = await of()
      if (alarm === undefined) {
        throw new MarketError('UNKNOWN_ALARM', 'no alarm has this id: see GET /alarms or stoa alarms list')
      }
      if (alarm.dismissed_at !== undefined) return alarm
      const at = clock.now()
      await store.dismiss(id, { mark: mark ?? alarm.mark, at })
      counted = undefined
      return (await of()) ?? { ...alarm, dismissed_at: isoTime(at) }
    },
  }
}

const isState = (id: string) => states.some((kind) => id === kind || id.startsWith(`${kind}-`))

/** The mark of an event alarm is a rising number. The mark of a state alarm is its text. */
function isNewer(alarm: OpenAlarm, { mark }: Dismissal): boolean {
  if (states.includes(alarm.kind)) return alarm.mark !== mark
  return !(Number(alarm.mark) <= Number(mark))
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12)
}

/** Replaces values that differ between payments, so that one cause gives one alarm. */
function causeOf(error: string): string {
  return error
    .slice(0, REASON_LENGTH)
    .replace(/0x[0-9a-fA-F]+/g, '0x…')
    .replace(/\d+/g, '#')
}

function shortened(reason: string): string {
  return reason.length > REASON_LENGTH ? `${reason.slice(0, REASON_LENGTH)}…` : reason.replace(/\.$/, '')
}

function amounts(amount: bigint): Pick<AlarmRecord, 'amount' | 'amount_atomic'> {
  return { amount: formatPrice(amount), amount_atomic: amount.toString() }
}

/** Groups unpaid work by reason. If a dismissed reason occurs again, counts only what came after the dismissal. */
async function unpaidWork(store: AlarmStore, dismissals: ReadonlyMap<string, Dismissal>): Promise<OpenAlarm[]> {
  const alarmOf = async ({ id, reason, errors, ...sum }: Reason): Promise<OpenAlarm> => {
    const since = Number(dismissals.get(id)?.mark)
    const isRenewed = Number.isFinite(since) && sum.newestAt > since
    const renewed = isRenewed && (await Promise.all(errors.map((error) => store.unpaidSince(error, since))))
    const { count, amount } = renewed === false ? sum : sumOf(renewed.flatMap((group) => group ?? []))
    return {
      ...{ id, kind: 'work_unpaid', severity: 'bad', count },
      title: `The work of ${count === 1 ? 'one call' : `${count} calls`} was never paid`,
      text:
        `${reason === '' ? 'The payment cannot be settled.' : `The settlement failed: ${reason}.`} ` +
        'List these calls with: stoa payment list --direction in --state failed. Then dismiss this alarm.',
      ...amounts(amount),
      mark: String(sum.newestAt),
    }
  }
  const found = await Promise.all(byReason('work_unpaid', await store.unpaid()).map(alarmOf))
  // What was unpaid at the first question may be paid at the second.
  return found.filter(({ count }) => count > 0)
}

async function stuckPayments(store: AlarmStore): Promise<OpenAlarm[]> {
  return byReason('settlement_stuck', await store.stuck()).map(({ id, reason, count, amount }) => ({
    ...{ id, kind: 'settlement_stuck', severity: 'bad', count },
    title: `${count === 1 ? 'A payment waits' : `${count} payments wait`} because settlement fails`,
    text: `The settlement fails: ${reason}. Check the facilitator and the RPC with: stoa doctor.`,
    ...amounts(amount),
    mark: 'holds',
  }))
}

function brokenAgents(agents: readonly OwnAgent[]): OpenAlarm[] {
  return agents.flatMap(({ id, name, notice, paused, runnable }) => {
    if (notice === undefined || paused) return []
    const about = { agent_id: id, agent_name: name, count: 1, mark: digest(notice) }
    const severity = runnable ? 'warn' : 'bad'
    const title = runnable ? `${name} needs attention` : `${name} cannot run and is not on the market`
    return { id: `agent_broken-${digest(id)}`, kind: 'agent_broken', severity, title, text: sentence(notice), ...about }
  })
}

/** Judges each agent by its latest runs. After a dismissal, only later runs count. */
async function failingAgents(
  { store, agents, nameOf }: AlarmsDeps,
  dismissals: ReadonlyMap<string, Dismissal>,
): Promise<OpenAlarm[]> {
  const idOf = (agentId: string) => `agent_failing-${digest(agentId)}`
  const isFailing = ({ calls, failed }: { calls: number; failed: number }) =>
    calls >= FAILING_CALLS_MIN && failed / calls >= FAILING_SHARE
  // Broken agents have an alarm of their own.
  const broken = new Set(agents().flatMap(({ id, notice }) => (notice === undefined ? [] : [id])))
  const all = (await store.lateRuns(() => 0)).filter((runs) => isFailing(runs) && !broken.has(runs.agentId))
  if (all.length === 0) return []
  const since = await store.lateRuns((agentId) => Number(dismissals.get(idOf(agentId))?.mark ?? 0))
  return all.map((late) => {
    const { agentId } = late
    const fresh = since.find((runs) => runs.agentId === agentId && isFailing(runs))
    const { calls, failed } = fresh ?? late
    const name = nameOf(agentId)
    return {
      ...{ id: idOf(agentId), kind: 'agent_failing', severity: 'bad', count: failed },
      title: `${name ?? 'An agent'} fails often: ${failed} of its latest ${calls} calls`,
      text: 'Failed calls are not paid. Test the agent, and read the errors of its executions.',
      agent_id: agentId,
      ...(name !== undefined && { agent_name: name }),
      mark: String(fresh?.newest ?? dismissals.get(idOf(agentId))?.mark ?? late.newest),
    }
  })
}

/** A buyer meets another price at each process, and each keeps to another limit. */
function unlikeProcesses(found: Differences | undefined): OpenAlarm[] {
  if (found === undefined) return []
  const { agents, budget, mark } = found
  const title = 'The processes of this seller are configured differently'
  const what = [
    ...(agents.length === 0 ? [] : [`They have other settings for ${namesText(agents)}, or not all have it.`]),
    ...(budget ? ['Their budgets differ.'] : []),
  ]
  const text = `${what.join(' ')} Give all the same agents.yaml (stoa agent reload) and config.yaml (restart them one by one). stoa doctor names them.`
  return [{ ...{ id: 'processes_differ', kind: 'processes_differ', severity: 'warn', title, text, count: 1 }, mark }]
}

/** `reason` is that of the newest payment. */
type Reason = Omit<FailedPayments, 'error'> & { id: string; reason: string; errors: string[] }

function byReason(kind: AlarmKind, groups: readonly FailedPayments[]): Reason[] {
  const reasons = Map.groupBy(groups, ({ error }) => causeOf(error))
  return [...reasons].map(([key, same]) => ({
    ...{ id: `${kind}-${digest(key)}`, reason: shortened(same[0]!.error), errors: same.map(({ error }) => error) },
    ...sumOf(same),
  }))
}

function sumOf(groups: readonly FailedPayments[]): Omit<FailedPayments, 'error'> {
  return {
    count: groups.reduce((sum, { count }) => sum + count, 0),
    amount: groups.reduce((sum, { amount }) => sum + amount, 0n),
    newestAt: Math.max(...groups.map(({ newestAt }) => newestAt)),
  }
}
