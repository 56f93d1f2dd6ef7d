import { randomBytes } from 'node:crypto'
import type { ChannelReader, ChannelState } from '../../chain/batch-settlement.ts'
import type { Chain } from '../../chain/chain.ts'
import { largest, smallest } from '../../lib/bigints.ts'
import type { Clock, UnixMs } from '../../lib/clock.ts'
import { faultPoint } from '../../lib/fault-point.ts'
import { depositNonce } from '../../payments/channel-digests.ts'
import { heldIn } from '../../payments/channels/moved.ts'
import type { Wallet } from '../../payments/wallet.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { DepositUnderWay, LandedDeposit, Moved, SeenChannel, StoredChannel } from '../../store/buyer-channels.ts'
import { type FundsDeps, sendFunds } from './ask-funds.ts'
import type { ChannelLine } from './channel-line.ts'

/** How long a deposit may be sent. */
const WINDOW_SECONDS = 600n
/** The clock of the chain may lag: an authorization is valid from some time before it was signed. */
const BACKDATE_SECONDS = 60n
/** A seller needs some time to send a deposit, so it is not sent later than this before its end. */
const MARGIN_SECONDS = 30n
/** By then the balance shows a deposit, also at an RPC that lags. */
const SHOWN_SECONDS = 15n
/** A block this far past the window shows that the deposit will never happen. */
const FINAL_MARGIN_MS = 30_000
/** Deposits of a channel that are remembered: more than a reorganization takes back. */
const LANDED_KEPT = 8

/** Signs a deposit. The caller has it on disk before it leaves, and signs no second one while the chain may take it. */
export function signedDeposit(
  { id, amount, balanceBefore, now }: { id: Hex; amount: bigint; balanceBefore: bigint; now: UnixMs },
  wallet: Pick<Wallet, 'signDeposit'>,
): DepositUnderWay {
  const salt: Hex = `0x${randomBytes(32).toString('hex')}`
  const validBefore = BigInt(Math.floor(now / 1000)) + WINDOW_SECONDS
  return signedUntil({ id, amount, salt, validBefore, balanceBefore }, wallet)
}

/** The same salt gives the same authorization: it happens once, however often it is signed. */
export function signedUntil(
  { id, amount, salt, validBefore, balanceBefore }: LandedDeposit & { id: Hex; balanceBefore: bigint },
  wallet: Pick<Wallet, 'signDeposit'>,
): DepositUnderWay {
  const terms = { amount, validAfter: validBefore - WINDOW_SECONDS - BACKDATE_SECONDS, validBefore, salt }
  return { ...terms, signature: wallet.signDeposit({ channelId: id, ...terms }), balanceBefore }
}

/** True while a seller has time to send a deposit. */
export function canBeSent({ validBefore }: Pick<DepositUnderWay, 'validBefore'>, now: UnixMs): boolean {
  return now < Number(validBefore - MARGIN_SECONDS) * 1000
}

/**
 * What lies in channels and was not spent, with deposits under way: the most that their sellers could keep back. What was
 * put in counts until it was seen to leave, and a claim up to what was signed, whatever the RPC shows.
 */
export function lockedIn(
  channels: readonly Pick<StoredChannel, 'network' | 'onChain' | 'moved' | 'mark' | 'charged' | 'deposit'>[],
  network: string,
): bigint {
  return channels
    .filter((channel) => channel.network === network)
    .reduce((sum, { onChain, moved, mark, charged, deposit }) => {
      const spent = largest(charged, smallest(onChain.totalClaimed, mark))
      return sum + largest(heldIn({ onChain, moved }) - spent, 0n) + (deposit?.amount ?? 0n)
    }, 0n)
}

type DepositDeps = FundsDeps & {
  clock: Clock
  chain: Pick<Chain, 'authorizationAt'>
  reader: Pick<ChannelReader, 'channels'>
  /** Aborts when the node stops: its seller is not waited for then. */
  stopping?: AbortSignal | undefined
}

/** What the chain shows of a deposit that has ended. */
type DepositEnd = SeenChannel & { hasLanded: boolean }

/**
 * Looks what became of a deposit. The own RPC is believed, never the seller. While the chain does not show it, the same
 * deposit is sent to the seller again: it can happen once.
 *
 * @returns undefined while it may still happen
 * @throws ChainError, or the error of the seller
 */
export async function lookAtDeposit(line: ChannelLine, deps: DepositDeps): Promise<DepositEnd | undefined> {
  const { deposit } = line
  if (deposit === undefined) return undefined
  const { wallet, chain, reader, clock } = deps
  const read = async () => (await reader.channels([line.id]))[0]!
  const counted = (): Moved => {
    const { amount, salt, validBefore } = deposit
    const deposits = [...(line.moved.deposits ?? []), { amount, salt, validBefore }].slice(-LANDED_KEPT)
    return { ...line.moved, in: line.moved.in + amount, deposits }
  }
  const landed = (onChain: ChannelState): DepositEnd => ({ onChain, moved: counted(), hasLanded: true })
  const isShown = ({ balance }: ChannelState) => balance >= deposit.balanceBefore + deposit.amount
  const onChain = await read()
  if (isShown(onChain)) return landed(onChain)
  const untilMs = Number(deposit.validBefore) * 1000
  const nonce = depositNonce({ channelId: line.id, salt: deposit.salt })
  const ask = () => chain.authorizationAt(wallet.asset.address, wallet.address, nonce)
  // A channel that is left gets no more money. Its seller may still send what it has got before.
  if (line.leaving === undefined && canBeSent(deposit, clock.now())) {
    await sendDeposit(line, deposit, deps)
    const after = await read()
    if (isShown(after)) return landed(after)
    // If a reorganization takes back what lay there before, the balance never shows this deposit.
    const isLate = clock.now() >= untilMs - Number(WINDOW_SECONDS - SHOWN_SECONDS) * 1000
    return isLate && (await ask()).use.state === 'used' ? landed(await read()) : undefined
  }
  const { use, timeMs } = await ask()
  // Some of it may have left the channel again since, so the balance alone does not tell.
  if (use.state === 'used') return landed(await read())
  const isDead = use.state === 'canceled' || timeMs > untilMs + FINAL_MARGIN_MS
  // What was taken back once may come back once more: it counts for as long as missing.ts says.
  const moved = deposit.isUndone && use.state === 'unused' ? counted() : line.moved
  return isDead ? { onChain, moved, hasLanded: false } : undefined
}

async function sendDeposit(line: ChannelLine, deposit: DepositUnderWay, deps: DepositDeps): Promise<void> {
  const { amount, validAfter, validBefore, salt, signature } = deposit
  const { voucher, counted } = line.forFunds()
  const channel = {
    ...{ config: line.channel.config, voucher, counted },
    deposit: { amount, authorization: { validAfter, validBefore, salt, signature } },
  }
  await sendFunds(line, { method: 'deposit', channel }, deps, deps.stopping)
  faultPoint('buyer:deposit-sent')
}
