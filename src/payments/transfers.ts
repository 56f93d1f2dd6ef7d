import type { Chain } from '../chain/chain.ts'
import { ETHER_DECIMALS } from '../chain/ether.ts'
import { encodeTransfer } from '../chain/usdc.ts'
import { CodedError } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { formatAmount, parseAmount } from '../schema/amount.ts'
import type { Caller } from '../schema/caller.ts'
import { networkKind, networkText } from '../schema/network-kind.ts'
import type { Hex } from '../schema/primitives.ts'
import type { SendTransfer, Transfer } from '../schema/transfer.ts'
import { sameAddress } from './assets.ts'
import { type Call, isSame } from './call.ts'
import { checksumAddress } from './secp256k1.ts'
import type { Sender } from './sender.ts'
import { TransactionError } from './transaction-error.ts'
import type { Wallet } from './wallet.ts'

type TransfersDeps = {
  wallet: Pick<Wallet, 'address' | 'asset'>
  logger: Logger
  /** The chain, and the only sender of this account. @throws CodedError CHAIN_UNAVAILABLE */
  lane(): Promise<{ chain: Pick<Chain, 'usdcBalance'>; sender: Pick<Sender, 'send' | 'open'> }>
  /** What signed authorizations may still take, in atomic units. */
  held(): Promise<bigint>
}

/** Money that the operator sends from the wallet. Budgets do not apply: they limit what this node buys. */
export type Transfers = {
  /** @throws CodedError, TransactionError, ChainError */
  send(
    asked: SendTransfer,
    request: { caller: Caller; idempotencyKey: string | undefined; signal: AbortSignal },
  ): Promise<Transfer>
}

type TransferTerms = { asset: 'USDC' | 'ETH'; atomic: bigint; to: Hex; text: string }

export function createTransfers({ wallet, logger, lane, held }: TransfersDeps): Transfers {
  const { address, asset: usdc } = wallet
  const { network } = usdc

  function read({ to, amount, asset = 'USDC', network: confirmed }: SendTransfer): TransferTerms {
    if (confirmed !== network) {
      const why = `this node runs on ${networkText(network)}, not on ${networkText(confirmed)}`
      throw new CodedError('NETWORK_MISMATCH', `${why}: nothing was sent`)
    }
    const whole = checksumAddress(to as Hex)
    const isMixed = /[a-f]/.test(to.slice(2)) && /[A-F]/.test(to.slice(2))
    if (isMixed && to !== whole) throw refused(`to: ${to} is misspelled: its letter case does not fit (EIP-55)`)
    const isNobody = /^0x0{40}$/.test(to) || sameAddress(whole, address) || sameAddress(whole, usdc.address)
    if (isNobody) throw refused(`to: ${whole} is the wallet itself, the USDC contract or nobody: nothing was sent`)
    const decimals = asset === 'USDC' ? usdc.decimals : ETHER_DECIMALS
    const atomic = readAmount(amount, decimals)
    return { asset, atomic, to: whole, text: `${formatAmount(atomic, decimals)} ${asset}` }
  }

  function callOf({ asset, atomic, to, text }: TransferTerms, key: string | undefined): Call {
    const purpose = `send ${text} to ${to}`
    if (asset === 'ETH') return { purpose, to, data: '0x', value: atomic, key }
    return { purpose, to: usdc.address as Hex, data: encodeTransfer(to, atomic), key }
  }

  /** Refuses to send USDC that signed authorizations may still take: their sellers have worked for it. */
  async function checkFunds(
    chain: Pick<Chain, 'usdcBalance'>,
    { atomic }: TransferTerms,
    signal: AbortSignal,
  ): Promise<void> {
    const balance = await chain.usdcBalance(address, signal)
    const signed = await held()
    if (balance - signed >= atomic) return
    const shown = (amount: bigint) => `${formatAmount(amount, usdc.decimals)} USDC`
    const why = `the wallet ${address} holds ${shown(balance)}, of which ${shown(signed)} are signed for and not charged yet`
    throw new TransactionError('INSUFFICIENT_FUNDS', `${why}: ${shown(atomic)} cannot be sent. Nothing was sent`)
  }

  return {
    async send(asked, { caller, idempotencyKey, signal }) {
      const known = read(asked)
      const key = idempotencyKey === undefined ? undefined : `${caller.tokenId ?? ''} ${idempotencyKey}`
      const call = callOf(known, key)
      const { chain, sender } = await lane()
      const guard = async () => {
        const like = (await sender.open()).find((one) => isSame(one, call))
        if (like === undefined) return known.asset === 'USDC' ? checkFunds(chain, known, signal) : undefined
        const why = `transaction ${like.hash} that does the same (${like.purpose}) is sent and not mined yet`
        const advice = 'wait for it, or see stoa transaction list; nothing more was sent'
        throw new TransactionError('TRANSACTION_PENDING', `${why}: ${advice}`)
      }
      const { hash } = await sender.send(() => ({ ...call, guard }), signal)
      logger.info({ tx_hash: hash, network }, `sent ${known.text} to ${known.to}`)
      const { asset, atomic, to } = known
      const kind = { network, network_kind: networkKind(network), asset }
      const amount = { amount: known.text.split(' ')[0]!, amount_atomic: `${atomic}` }
      return { tx_hash: hash, ...kind, ...amount, from: address, to }
    },
  }
}

function readAmount(text: string, decimals: number): bigint {
  let atomic: bigint
  try {
    atomic = parseAmount(text, decimals)
  } catch (error) {
    throw refused(`amount: ${(error as RangeError).message}`)
  }
  if (atomic === 0n) throw refused('amount: must be above 0')
  return atomic
}

function refused(why: string): CodedError<'INVALID_REQUEST'> {
  return new CodedError('INVALID_REQUEST', why)
}
