import { lockedIn } from '../buying/channels/deposits.ts'
import type { UnixMs } from '../lib/clock.ts'
import type { AlarmRecord } from '../schema/alarm.ts'
import { formatPrice } from '../schema/amount.ts'
import type { StoredChannel } from '../store/buyer-channels.ts'

type ExitAlarm = Omit<AlarmRecord, 'dismissed_at'>

/** A step that failed once is tried again within seconds. */
const FAILURES_MIN = 2
/** By this time a deposit that the seller has sent at once is on the chain. */
const DEPOSIT_MS = 3 * 60_000
/** How long a deposit may be sent: see buying/channels/deposits.ts. */
const WINDOW_MS = 600_000
/** The alarm of a stopped channel stays for this long after its money is back. */
const TOLD_MS = 7 * 24 * 60 * 60_000

/** The alarms of the payment channels by which this node pays. */
export function exitAlarms(channels: readonly StoredChannel[], now: UnixMs): ExitAlarm[] {
  return [...stopped(channels, now), ...failing(channels), ...pending(channels, now), ...missing(channels, now)]
}

function stopped(all: readonly StoredChannel[], now: UnixMs): ExitAlarm[] {
  const found = all.filter((one) => one.stopped !== undefined && now - (one.closedAt ?? now) < TOLD_MS)
  const text = (one: StoredChannel) =>
    `${sentence(one.stopped!)} Results were kept, and no more is paid ahead to this seller. This node takes its money out: ` +
    'stoa channel show tells how far it is.'
  return alarmsOf('channel_stopped', 'bad', found, {
    title: (count) => (count === 1 ? 'A payment channel has stopped' : `${count} payment channels have stopped`),
    text,
  })
}

function failing(all: readonly StoredChannel[]): ExitAlarm[] {
  const found = all.filter(({ leaving, closedAt }) => {
    const trouble = closedAt === undefined ? leaving?.trouble : undefined
    return trouble?.step === 'withdrawal' && trouble.count >= FAILURES_MIN
  })
  return alarmsOf('channel_exit_failing', 'bad', found, {
    title: (count) =>
      `Money cannot be taken out of ${count === 1 ? 'a payment channel' : `${count} payment channels`} yet`,
    text: ({ leaving }) => `${sentence(leaving!.trouble!.reason)} The node tries again by itself.`,
  })
}

function pending(all: readonly StoredChannel[], now: UnixMs): ExitAlarm[] {
  const found = all.filter(({ onChain, closedAt }) => onChain.withdrawal !== undefined && closedAt === undefined)
  const endOf = ({ onChain, config }: StoredChannel) => (onChain.withdrawal!.initiatedAt + config.withdrawDelay) * 1000
  const first = Math.min(...found.map(endOf))
  const minutes = Math.max(0, Math.ceil((first - now) / 60_000))
  return alarmsOf('channel_exit_pending', 'warn', found, {
    title: (count) => `This node takes money out of ${count === 1 ? 'a payment channel' : `${count} payment channels`}`,
    text: ({ leaving }) => {
      const why = leaving?.trouble?.step === 'refund' ? `${sentence(leaving.trouble.reason)} ` : ''
      return `${why}The first withdrawal can end in ${minutes} min, by the clock of the chain. The node ends it by itself, if the wallet has ETH for gas.`
    },
    amountOf: ({ onChain }) => onChain.withdrawal!.amount,
  })
}

function missing(all: readonly StoredChannel[], now: UnixMs): ExitAlarm[] {
  const found = all.filter(({ deposit }) => {
    const signedAt = deposit && Number(deposit.validBefore) * 1000 - WINDOW_MS
    return signedAt !== undefined && now - signedAt > DEPOSIT_MS
  })
  return alarmsOf('channel_deposit_pending', 'warn', found, {
    title: (count) =>
      `${count === 1 ? 'A deposit' : `${count} deposits`} into payment channels did not reach the chain yet`,
    text: () =>
      'Their sellers send them. Until then calls are paid one by one. What does not arrive in time can never happen, and the node ' +
      'notices that on the chain: check the RPC with: stoa doctor.',
    amountOf: ({ deposit }) => deposit!.amount,
  })
}

type Words = {
  title(count: number): string
  /** The text for the channel that was opened last. */
  text(channel: StoredChannel): string
  /** Default: what lies in the channel. */
  amountOf?(channel: StoredChannel): bigint
}

function alarmsOf(
  kind: AlarmRecord['kind'],
  severity: AlarmRecord['severity'],
  found: readonly StoredChannel[],
  { title, text, amountOf = ({ network, ...one }) => lockedIn([{ ...one, network }], network) }: Words,
): ExitAlarm[] {
  if (found.length === 0) return []
  const amount = found.reduce((sum, one) => sum + amountOf(one), 0n)
  const count = found.length
  // Another channel is something new.
  const mark = found
    .map(({ id }) => id.slice(2, 10))
    .join(' ')
    .slice(0, 90)
  const amounts = { amount: formatPrice(amount), amount_atomic: amount.toString() }
  return [{ id: kind, kind, severity, title: title(count), text: text(found[0]!), count, ...amounts, mark }]
}

function sentence(reason: string): string {
  return `${reason[0]!.toUpperCase()}${reason.slice(1).replace(/\.$/, '')}.`
}
