import { smallest } from '../../lib/bigints.ts'
import { parsePrice, usdc } from '../../schema/amount.ts'
import type { StoredChannel } from '../../store/buyer-channels.ts'
import type { BudgetRules } from '../budget-rules.ts'
import { lockedIn } from './deposits.ts'

/** The most that lies in channels to all sellers. */
const DEPOSITS_MAX = parsePrice('5')

/** Which of the operator's rules money in channels must fit. */
export type LockRules = Pick<BudgetRules, 'perDay' | 'perMonth' | 'perSeller' | 'autoApproveBelow'>

/** The token of a call, and the most that lies in channels for it: what it may still spend. */
export type TokenLimit = { id: string; most: bigint }

/** `room`: the most that a deposit may be. `why`: what is said of one that is more. */
type DepositLimit = { room: bigint; why(amount: bigint): string }

/** What else limits deposits. */
export type Limited = { depositMax: bigint; token: TokenLimit | undefined; rules?: LockRules | undefined }

/** What limits a deposit at a seller, by all channels of the wallet, whatever process has them. */
export function depositLimits(
  { sellerId, network }: Pick<StoredChannel, 'sellerId' | 'network'>,
  { depositMax, token, rules }: Limited,
  all: readonly StoredChannel[],
): DepositLimit[] {
  const atSeller = all.filter((other) => other.sellerId === sellerId)
  const [here, everywhere] = [lockedIn(atSeller, network), lockedIn(all, network)]
  const held = `channels to this seller hold ${usdc(here)} and buyer.channel_deposit_max is ${usdc(depositMax)}`
  const limits: DepositLimit[] = [
    { room: depositMax - here, why: (amount) => `${held}: a deposit of ${usdc(amount)} is too much` },
    {
      room: DEPOSITS_MAX - everywhere,
      why: () => `channels to all sellers hold ${usdc(everywhere)} of at most ${usdc(DEPOSITS_MAX)}`,
    },
  ]
  if (token !== undefined) {
    const ofToken = lockedBy(token, all, network)
    const why = () => `channels for this token hold ${usdc(ofToken)}, and it may spend ${usdc(token.most)}`
    limits.push({ room: token.most - ofToken, why })
  }
  return rules === undefined ? limits : [...limits, ...ruleLimits({ here, everywhere }, rules)]
}

/** The most that fits all limits. It may be below 0. */
export function roomIn(limits: readonly DepositLimit[]): bigint {
  return smallest(...(limits.map(({ room }) => room) as [bigint, ...bigint[]]))
}

/** Why a deposit must not be made. Undefined: it fits. */
export function limitTrouble(amount: bigint, limits: readonly DepositLimit[]): string | undefined {
  return limits.find(({ room }) => amount > room)?.why(amount)
}

/** What lies in the channels that calls of a token have asked for, at whatever seller and process. */
export function lockedBy({ id }: TokenLimit, all: readonly StoredChannel[], network: string): bigint {
  return lockedIn(
    all.filter(({ tokenIds }) => tokenIds.includes(id)),
    network,
  )
}

/** Which rules of the operator keep this node from making a deposit by itself. */
function ruleLimits(
  { here, everywhere }: Record<'here' | 'everywhere', bigint>,
  { perDay, perMonth, perSeller, autoApproveBelow }: LockRules,
): DepositLimit[] {
  const byHand = 'stoa channel open makes it'
  const limits: DepositLimit[] = []
  if (autoApproveBelow !== undefined) {
    const least = `a deposit of ${usdc(autoApproveBelow)} or more needs the operator`
    limits.push({
      room: autoApproveBelow - 1n,
      why: (amount) => `${least}, and this one is ${usdc(amount)}: ${byHand}`,
    })
  }
  const budgets = [
    { most: perSeller, held: here, whose: 'to this seller', what: 'its budget' },
    ...[perDay, perMonth].map((most) => ({ most, held: everywhere, whose: 'to all sellers', what: 'the budget' })),
  ]
  for (const { most, held, whose, what } of budgets) {
    if (most === undefined) continue
    const why = (amount: bigint) =>
      `channels ${whose} would hold ${usdc(held + amount)}, more than ${what} of ${usdc(most)}: ${byHand}`
    limits.push({ room: most - held, why })
  }
  return limits
}
