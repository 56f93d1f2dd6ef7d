import { parseReceipt } from '../chain/answers.ts'
import type { Chain } from '../chain/chain.ts'
import { encodeTransfer } from '../chain/usdc.ts'
import { type Clock, isoTime } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { doubledMs } from '../lib/retry.ts'
import { pause } from '../lib/wait.ts'
import { sameAddress } from '../payments/assets.ts'
import { askChainFinally, type PaymentChain, queryOf } from '../payments/chain-verdict.ts'
import type { Sender } from '../payments/sender.ts'
import { TransactionError } from '../payments/transaction-error.ts'
import type { Unrun } from '../payments/unrun.ts'
import type { Wallet } from '../payments/wallet.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Payments, StoredPayment } from '../store/payments.ts'
import { refundPurpose, type Transactions } from '../store/transactions.ts'

/** Between two looks at a payment that another process of this seller runs. */
const PAUSE = { firstMs: 50, mostMs: 1_000 }

export type RefundsDeps = {
  clock: Clock
  logger: Logger
  payments: Pick<Payments, 'get' | 'paidBack' | 'beginRefund'>
  unrun: Pick<Unrun, 'leave'>
  wallet: Pick<Wallet, 'address' | 'asset'>
  transactions: Pick<Transactions, 'ended'>
  /** Returns the chain and the only sender of this account. @throws CodedError CHAIN_UNAVAILABLE */
  lane(): Promise<{ chain: PaymentChain & Pick<Chain, 'request' | 'usdcBalance'>; sender: Pick<Sender, 'send'> }>
  /** What signed authorizations may still take, in atomic units. */
  held(): Promise<bigint>
  /** Work of this process in progress per payment. A request for the result waits for this work. */
  running: Map<Hex, Promise<unknown>>
}

/** Pays a received payment back to its payer (D45), by one transaction per payment. */
type Refunds = {
  /**
   * Waits for a run of this payment, at any process. Does nothing if the payment was paid back before, and refuses
   * if its work was delivered meanwhile.
   *
   * @throws CodedError, TransactionError, ChainError
   */
  refund(id: Hex, signal: AbortSignal): Promise<void>
}

export function createRefunds(deps: RefundsDeps): Refunds {
  const { clock, logger, payments, wallet, transactions, lane, held, running, unrun } = deps

  async function check(id: Hex): Promise<StoredPayment> {
    const payment = await payments.get(id)
    if (payment === undefined) {
      throw new CodedError(
        'UNKNOWN_PAYMENT',
        'this node received no payment with this id: it refunds only payments that it received',
      )
    }
    const { network, payTo } = payment.requirements
    if (network !== wallet.asset.network) {
      throw new CodedError(
        'NETWORK_MISMATCH',
        `the payment is on ${network}, and this node runs on ${wallet.asset.network}`,
      )
    }
    if (payment.channel !== undefined) {
      throw new CodedError(
        'PAYMENT_FINAL',
        'this call was paid on a payment channel, and has no payment of its own that could be paid back',
      )
    }
    if (payment.state !== 'settled') {
      throw new CodedError('PAYMENT_FINAL', 'only a settled payment can be refunded: see the state of this payment')
    }
    if (!sameAddress(payTo, wallet.address)) {
      throw new CodedError(
        'PAYMENT_FINAL',
        `the payment went to ${payTo}, and the wallet of this node is ${wallet.address}`,
      )
    }
    return payment
  }

  async function send(payment: StoredPayment, signal: AbortSignal): Promise<Hex> {
    const { id, signed, requirements } = payment
    const { chain, sender } = await lane()
    const purpose = refundPurpose(id)
    const { network } = wallet.asset
    const ended = await transactions.ended(network, wallet.address, purpose)
    // A transaction that a lagging RPC reported as dropped may have been mined. Check it before signing another one.
    for (const { hash, state } of ended) {
      if (state === 'mined') return hash
      const receipt = parseReceipt(await chain.request('eth_getTransactionReceipt', [hash], signal))
      if (receipt?.succeeded === true) return hash
    }
    const guard = async () => {
      await checkFinal(payment, chain)
      const free = (await chain.usdcBalance(wallet.address, signal)) - (await held())
      if (free >= requirements.amount) return
      const why = `the wallet ${wallet.address} has too little USDC that is not signed for`
      throw new TransactionError('INSUFFICIENT_FUNDS', `${why}: add USDC or wait; nothing was sent`)
    }
    const call = {
      guard,
      purpose,
      // The key is the same after a crash, so a transaction that was sent and not recorded is continued and not sent
      // again.
      key: `${purpose} ${ended.length}`,
      to: wallet.asset.address as Hex,
      data: encodeTransfer(signed.authorization.from, requirements.amount),
    }
    return (await sender.send(() => call, signal)).hash
  }

  /**
   * Keeps all processes from running the work. Needs no mark for work that was delivered: it never runs again.
   *
   * @param asked the payment as it was when its refund was asked for
   * @returns undefined if there is nothing to pay back
   */
  async function take(
    id: Hex,
    asked: Promise<StoredPayment | undefined>,
    signal: AbortSignal,
  ): Promise<StoredPayment | undefined> {
    const before = await asked
    for (let looks = 1; ; looks++) {
      const payment = await check(id)
      if (payment.refundTx !== undefined) return undefined
      if (payment.ran && before?.ran !== true) {
        const why = 'its result was delivered while the refund waited, and nothing was sent'
        throw new CodedError('PAYMENT_FINAL', `${why}: ask again to refund it all the same`)
      }
      if (payment.ran || (await payments.beginRefund(id))) return payment
      await pause(doubledMs(looks, PAUSE), signal)
      signal.throwIfAborted()
    }
  }

  async function payBack(id: Hex, asked: Promise<StoredPayment | undefined>, signal: AbortSignal): Promise<void> {
    const payment = await take(id, asked, signal)
    if (payment === undefined) return
    const hash = await send(payment, signal)
    await payments.paidBack(payment.id, hash, clock.now())
    const ids = { payment_id: payment.id, correlation_id: payment.correlationId, tx_hash: hash }
    logger.info(ids, 'a payment was refunded')
  }

  return {
    async refund(id, signal) {
      const asked = payments.get(id)
      asked.catch(() => {})
      // During the refund, no result is delivered and no agent runs for this payment.
      for (let work = running.get(id); work !== undefined; work = running.get(id)) await work
      // Before the payment is read, so that nothing else begins with it in between.
      const work = payBack(id, asked, signal)
      // Requests that wait for the end of the refund do not see its error. If it failed, other processes may run the work.
      const end: Promise<void> = work
        .catch(() => unrun.leave(id))
        .finally(() => {
          if (running.get(id) === end) running.delete(id)
        })
      running.set(id, end)
      await work
    },
  }
}

/** Refuses a refund while a reorganization can still undo the settlement, or the payer could have the money twice. */
async function checkFinal(payment: StoredPayment, chain: PaymentChain): Promise<void> {
  const verdict = await askChainFinally(queryOf(payment, payment.txHash), chain)
  if (verdict.kind === 'paid') return
  if (verdict.kind === 'early') {
    const why = 'the chain can still undo the settlement of this payment'
    const advice = `refund it after ${isoTime(verdict.untilMs)}, by the time of the chain; nothing was sent`
    throw new CodedError('SETTLEMENT_NOT_FINAL', `${why}: ${advice}`)
  }
  if (verdict.kind === 'unknown') {
    const why = `the chain does not say whether this payment was settled (${verdict.reason})`
    throw new CodedError('CHAIN_UNAVAILABLE', `${why}: try again, or use another RPC; nothing was sent`)
  }
  const why = verdict.kind === 'never' ? verdict.reason : 'its authorization is unused'
  throw new CodedError(
    'PAYMENT_FINAL',
    `the chain does not show that this payment was settled: ${why}; nothing was sent`,
  )
}
