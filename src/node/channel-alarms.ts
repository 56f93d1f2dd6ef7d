import { lagText } from '../payments/channels/chain-lag.ts'
import type { ChannelsSummary } from '../payments/channels/channels-summary.ts'
import type { AlarmRecord } from '../schema/alarm.ts'
import { formatPrice } from '../schema/amount.ts'

type ChannelAlarm = Omit<AlarmRecord, 'dismissed_at'>

/** A claim that failed once is tried again within minutes. */
const FAILURES_MIN = 2

/** The alarms of the payment channels to this seller. Undefined: it takes none. */
export function channelAlarms(summary: ChannelsSummary | undefined): ChannelAlarm[] {
  if (summary === undefined) return []
  const { withdrawals, lost, failing, late, unclaimed, lagMs, count } = summary
  const alarms: ChannelAlarm[] = []
  const add = (alarm: Omit<ChannelAlarm, 'id' | 'severity'>, severity: 'bad' | 'warn') =>
    alarms.push({ id: alarm.kind, severity, ...alarm })
  const open = withdrawals.filter((one) => one.unclaimed > 0n)
  if (open.length > 0) {
    const amount = sum(open.map((one) => one.unclaimed))
    const first = Math.min(...open.map(({ endsInMs }) => endsInMs))
    const text =
      `${when(first)} What the withdrawal could take is claimed at once. If that fails, check the facilitator, the ETH of the wallet ` +
      'and the RPC with: stoa doctor.'
    const title =
      open.length === 1
        ? 'A payer takes money out of a payment channel that owes some'
        : `${open.length} payers take money out of payment channels that owe some`
    // A new withdrawal is something new.
    const mark = open
      .map(({ id }) => id.slice(2, 10))
      .join(' ')
      .slice(0, 90)
    add({ kind: 'channel_withdrawal', title, text, count: open.length, ...amounts(amount), mark }, 'bad')
  }
  if (lagMs > 0) {
    const title = 'The RPC shows an old block: no call on a payment channel is taken'
    const text = `${upper(lagText(lagMs))}. A withdrawal that has begun since is not seen. Use another ETHEREUM_RPC_URL, or set the clock.`
    add({ kind: 'channel_chain_behind', title, text, count, ...amounts(unclaimed), mark: 'holds' }, 'bad')
  }
  if (failing !== undefined && failing.count >= FAILURES_MIN) {
    const title = 'Payment channels cannot be claimed'
    const text = `${failing.reason}. Check the facilitator, the ETH of the wallet and the RPC with: stoa doctor.`
    add(
      { kind: 'channel_claim_failing', title, text, count: failing.count, ...amounts(unclaimed), mark: 'holds' },
      'bad',
    )
  }
  // A claim that fails tells more.
  if (late !== undefined && alarms.every(({ kind }) => kind !== 'channel_claim_failing')) {
    const hours = Math.floor(late.oldestMs / 3_600_000)
    const channels = late.count === 1 ? 'A payment channel has' : `${late.count} payment channels have`
    const title = `${channels} not been claimed for a day`
    const text = `The oldest owes for ${hours} h. Claims happen every 12 h: check the facilitator, the ETH of the wallet and the RPC with: stoa doctor.`
    add({ kind: 'channel_claim_late', title, text, count: late.count, ...amounts(late.amount), mark: 'holds' }, 'warn')
  }
  if (lost.length > 0) {
    const amount = sum(lost.map((one) => one.amount))
    const title = `Charges on ${lost.length === 1 ? 'a payment channel' : `${lost.length} payment channels`} are lost`
    const text =
      'Their payers took the escrow out before it was claimed. The voucher counts again if they make a new deposit. ' +
      'A node that is offline for long needs a longer seller.channel_withdraw_delay.'
    add({ kind: 'channel_lost', title, text, count: lost.length, ...amounts(amount), mark: `${amount}` }, 'bad')
  }
  return alarms
}

function when(endsInMs: number): string {
  const minutes = Math.floor(endsInMs / 60_000)
  return minutes < 1 ? 'The first withdrawal can end at any moment.' : `The first withdrawal can end in ${minutes} min.`
}

const upper = (text: string) => `${text[0]!.toUpperCase()}${text.slice(1)}`
const sum = (amounts: readonly bigint[]) => amounts.reduce((total, amount) => total + amount, 0n)
const amounts = (amount: bigint) => ({ amount: formatPrice(amount), amount_atomic: amount.toString() })
