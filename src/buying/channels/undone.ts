import type { Chain } from '../../chain/chain.ts'
import type { Clock, UnixMs } from '../../lib/clock.ts'
import type { Logger } from '../../lib/logger.ts'
import { depositNonce } from '../../payments/channel-digests.ts'
import { missingIn } from '../../payments/channels/moved.ts'
import type { Wallet } from '../../payments/wallet.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { BuyerChannels, LandedDeposit } from '../../store/buyer-channels.ts'
import type { ChannelLine } from './channel-line.ts'
import { canBeSent, signedUntil } from './deposits.ts'
import { countedOf } from './missing.ts'

export type UndoneDeps = {
  clock: Clock
  logger: Logger
  store: Pick<BuyerChannels, 'depositAgain'>
  wallet: Pick<Wallet, 'signDeposit'>
  chain: Pick<Chain, 'authorizationAt'>
}

/**
 * True if a deposit has landed that the chain does not show any more, and that can still be sent. Its seller has it, so another
 * one would lock the money of both.
 */
export function mayComeBack(line: ChannelLine, now: UnixMs): boolean {
  return undoneIn(line, now).length > 0
}

/**
 * Sends a deposit again that a reorganization took back: the same one, which happens once. Without it calls would be paid one by
 * one until nobody could send it any more.
 *
 * @returns true if it is under way
 * @throws ChainError, StoreError
 */
export async function bringBack(line: ChannelLine, deps: UndoneDeps): Promise<boolean> {
  const { clock, chain, logger, store, wallet } = deps
  const { payer, token } = line.channel.config
  for (const deposit of undoneIn(line, clock.now())) {
    const nonce = depositNonce({ channelId: line.id, salt: deposit.salt })
    const { use } = await chain.authorizationAt(token as Hex, payer as Hex, nonce)
    // Much may have happened to the channel while the chain was asked.
    if (use.state !== 'unused' || !undoneIn(line, clock.now()).includes(deposit)) continue
    const { onChain } = line.channel
    const before = line.moved
    const deposits = (before.deposits ?? []).filter(({ salt }) => salt !== deposit.salt)
    const moved = { ...before, in: before.in - deposit.amount, deposits }
    // The rest that is missing may come back too, or not: what the chain shows now is what lies there before it.
    const signed = signedUntil({ ...deposit, id: line.id, balanceBefore: onChain.balance }, wallet)
    const again = { ...signed, isUndone: true as const }
    const isStored = await store.depositAgain(line.id, { onChain, moved, deposit: again }, clock.now())
    if (!isStored) return false
    line.moved = moved
    line.deposit = again
    const ids = { channel_id: line.id, peer_id: line.sellerId }
    logger.warn(ids, 'the chain has taken back a deposit into a payment channel; the same deposit is sent again')
    return true
  }
  return false
}

/** Landed deposits that may be those that are missing. */
function undoneIn(line: ChannelLine, now: UnixMs): LandedDeposit[] {
  if (line.deposit !== undefined || !line.isOpen) return []
  const missing = missingIn(countedOf(line))
  return (line.moved.deposits ?? []).filter((deposit) => deposit.amount <= missing && canBeSent(deposit, now))
}
