import { type Clock, monotonicOf } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { periodic } from '../lib/periodic.ts'
import { doubledMs } from '../lib/retry.ts'
import type { Sender } from '../payments/sender.ts'
import type { Wallet } from '../payments/wallet.ts'
import type { Payments } from '../store/payments.ts'
import type { Transactions } from '../store/transactions.ts'

const FIRST_MS = 1_000
const EVERY_MS = 60_000
/** Between two attempts while a transaction waits, for example because its fee is too low. */
const PAUSE = { firstMs: EVERY_MS, mostMs: 60 * 60_000 }

type LeftTransactionsDeps = {
  clock: Clock
  logger: Logger
  wallet: Pick<Wallet, 'address' | 'asset'>
  transactions: Pick<Transactions, 'open' | 'unnotedRefunds'>
  payments: Pick<Payments, 'get' | 'paidBack'>
  /** Returns the only sender of this account. @throws CodedError CHAIN_UNAVAILABLE */
  sender(): Promise<Pick<Sender, 'resume'>>
  firstMs?: number
}

/**
 * Brings transactions of this account to their end whose process has ended, at the start and after each takeover.
 *
 * A transaction is stored before it is sent. The process may have ended in between: a payment that waits for its refund then
 * buys nothing, and nobody has the money. A refund that was mined is noted at its payment.
 */
export function createLeftTransactions(deps: LeftTransactionsDeps): Service & { wake(): void } {
  const { clock, logger, wallet, transactions, payments } = deps
  const { address } = wallet
  const { network } = wallet.asset
  const stopping = new AbortController()
  let attempts = 0
  let waitUntil = 0

  async function look(): Promise<void> {
    if (monotonicOf(clock) >= waitUntil) await resume()
    for (const { paymentId, hash } of await transactions.unnotedRefunds(network, address)) {
      const payment = await payments.get(paymentId)
      if (payment === undefined || payment.refundTx !== undefined) continue
      await payments.paidBack(paymentId, hash, clock.now())
      const ids = { payment_id: paymentId, correlation_id: payment.correlationId, tx_hash: hash }
      logger.info(ids, 'a payment was refunded by a transaction that an ended process had signed')
    }
  }

  async function resume(): Promise<void> {
    const open = await transactions.open(network, address)
    if (open.length === 0) {
      attempts = 0
      return
    }
    attempts += 1
    waitUntil = monotonicOf(clock) + doubledMs(attempts, PAUSE)
    logger.info({ count: open.length }, 'transactions of this account have no end yet: they are sent again')
    await (await deps.sender()).resume(stopping.signal)
  }

  const looks = periodic(
    { name: 'left transactions', firstMs: deps.firstMs ?? FIRST_MS, everyMs: EVERY_MS },
    {
      work: look,
      onError(err) {
        if (!stopping.signal.aborted) logger.warn({ err }, 'transactions that an ended process left could not be sent')
      },
    },
  )
  return {
    name: looks.name,
    start: () => looks.start(),
    /** A process has ended. */
    wake() {
      attempts = 0
      waitUntil = 0
      looks.soon()
    },
    async stop() {
      stopping.abort(new Error('the node is stopping'))
      await looks.stop()
    },
  }
}
