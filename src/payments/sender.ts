/* By hand: an ABI library's wallet client keeps nothing on disk, so a crash could send a transaction twice. */

import { parseReceipt } from '../chain/answers.ts'
import type { Chain } from '../chain/chain.ts'
import type { Log } from '../chain/usdc.ts'
import type { Clock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import { createLane } from '../lib/lane.ts'
import { pause } from '../lib/wait.ts'
import type { Hex } from '../schema/primitives.ts'
import type { AgentToken, StoredTransaction, Transactions } from '../store/transactions.ts'
import { countTransactions, nextNonce, WAITING_MAX } from './account-nonces.ts'
import { type Call, isSame, lower, type MinedCall } from './call.ts'
import { readQuantity, refusalOf, TransactionError, tooPoorFor } from './transaction-error.ts'
import { askTerms } from './transaction-terms.ts'
import type { Wallet } from './wallet.ts'

const WAIT_MS = 60_000
const POLL_MS = 1_000
const FIRST_POLL_MS = 100
/**
 * Consecutive looks after which a transaction counts as lost. At each look its account nonce is used and the RPC does
 * not know it. RPC nodes may show a receipt some seconds late.
 */
const LOST_LOOKS = 20
const ABANDON = 'abandon '

type SenderDeps = {
  chain: Pick<Chain, 'network' | 'request'>
  wallet: Pick<Wallet, 'address' | 'signTransaction'>
  transactions: Transactions
  clock: Clock
  /** Reads from its logs what a transaction minted. The token is stored together with the end of the transaction. */
  tokenIn(transaction: StoredTransaction, logs: readonly Log[]): AgentToken | undefined
  waitMs?: number
  pollMs?: number
}

/**
 * Sends the transactions of this node's account, one after the other, each at most once.
 *
 * 1. A transaction that was sent and never seen mined is sent again, byte for byte. Its account nonce lets it happen
 * once.
 * 2. A call that would revert or cannot be paid is refused before anything is signed.
 * 3. Sign, store, send: in this order, so that after a crash the same transaction is sent again.
 * 4. Wait for the receipt. If that takes too long, the next call continues to wait for the same transaction.
 */
export class Sender {
  readonly #deps: SenderDeps
  readonly #lane = createLane()
  /** Apart from the lane, because the calls in the lane wait for the transaction that is repaired. */
  readonly #repairs = createLane()

  constructor(deps: SenderDeps) {
    this.#deps = deps
  }

  /**
   * @param make gives the call at its turn, or throws if there is nothing to do. Called again after earlier ones ended
   * @throws TransactionError, ChainError
   */
  send(make: () => Call | Promise<Call>, signal: AbortSignal): Promise<MinedCall> {
    return this.#lane(() => this.#sendNext(make, signal))
  }

  async #sendNext(make: () => Call | Promise<Call>, signal: AbortSignal): Promise<MinedCall> {
    const { transactions } = this.#deps
    for (;;) {
      signal.throwIfAborted()
      const last = await transactions.last()
      const before = await this.#sentBefore(await make(), signal)
      if (before !== undefined) return before
      const next = await make()
      await next.guard?.()
      const accountNonce = await nextNonce(this.#deps, signal)
      if (typeof accountNonce === 'object') await this.#fill(accountNonce.accountNonce, signal, accountNonce)
      if (typeof accountNonce !== 'number') continue
      const transaction = await this.#sign(next, accountNonce, signal)
      if (await this.#add(transaction, last)) return this.#follow(transaction, signal)
    }
  }

  /**
   * @returns false if another transaction was stored after number `last`: by another process, or by a repair
   * @throws TransactionError if this very transaction was stored before
   */
  async #add(transaction: StoredTransaction, last: number): Promise<boolean> {
    const { transactions, clock } = this.#deps
    if (await transactions.add(transaction, last, clock.now())) return true
    if ((await transactions.last()) > last) return false
    const why = `transaction ${transaction.hash} was sent before and did not happen`
    throw new TransactionError('TRANSACTION_LOST', `${why}: try again when the fees have changed`)
  }

  /** Waits for earlier transactions. @returns the one that does what the call asks for */
  async #sentBefore(call: Call, signal: AbortSignal): Promise<MinedCall | undefined> {
    const known = await this.#sentWithKey(call, signal)
    if (known !== undefined) return known
    const open = await this.open()
    if (open.length > 0) await call.guard?.()
    for (const earlier of open) {
      const isOurs = earlier.purpose === call.purpose && isSame(earlier, call)
      const mined = await this.#follow(earlier, signal).catch((error: unknown) => {
        // The failure of another transaction is reported to its own caller.
        const isOver = error instanceof TransactionError && error.code !== 'TRANSACTION_PENDING'
        if (isOurs || !isOver) throw error
      })
      if (isOurs && mined !== undefined) return mined
    }
    return undefined
  }

  /** The result of an earlier call with this key. @throws TransactionError if it failed, IDEMPOTENCY_CONFLICT */
  async #sentWithKey(call: Call, signal: AbortSignal): Promise<MinedCall | undefined> {
    const { chain, wallet, transactions } = this.#deps
    const rows = call.key === undefined ? [] : await transactions.withKey(chain.network, wallet.address, call.key)
    const latest = rows.find(({ state }) => state === 'mined') ?? rows.find(({ state }) => state === 'sent') ?? rows[0]
    if (latest === undefined) return undefined
    if (!isSame(latest, call)) {
      throw new CodedError('IDEMPOTENCY_CONFLICT', 'this idempotency key was sent with another request: use a new one')
    }
    if (latest.state === 'mined') return { hash: latest.hash, token: undefined }
    if (latest.state === 'sent') return this.#follow(latest, signal)
    const code = latest.state === 'failed' ? 'TRANSACTION_FAILED' : 'TRANSACTION_LOST'
    throw new TransactionError(code, `transaction ${latest.hash} did not happen: to send again, use a new key`)
  }

  /** Sent transactions whose end is not known, oldest first. */
  open(): Promise<StoredTransaction[]> {
    const { chain, wallet, transactions } = this.#deps
    return transactions.open(chain.network, wallet.address)
  }

  /**
   * Sends again what an ended process has stored, and may not have sent. @returns how many still wait
   * @throws ChainError
   */
  resume(signal: AbortSignal): Promise<number> {
    return this.#lane(async () => {
      for (const left of await this.open()) {
        const error = await this.#follow(left, signal).catch((error: unknown) => error)
        if (error instanceof Error && !(error instanceof TransactionError)) throw error
        // Those after it have later account nonces.
        if (error instanceof TransactionError && error.code === 'TRANSACTION_PENDING') break
      }
      return (await this.open()).length
    })
  }

  /** Sends a stuck transaction again with higher fees and the same nonce. @throws TransactionError, ChainError */
  replace(hash: Hex, signal: AbortSignal): Promise<MinedCall> {
    return this.#instead(hash, ({ purpose, to, data, value, key }) => ({ purpose, to, data, value, key }), signal)
  }

  /** Replaces a stuck transaction by an empty one. @throws TransactionError, ChainError */
  abandon(hash: Hex, signal: AbortSignal): Promise<MinedCall> {
    const { address: to } = this.#deps.wallet
    return this.#instead(hash, () => ({ purpose: `${ABANDON}${hash}`, to, data: '0x' }), signal)
  }

  #instead(hash: Hex, callOf: (stuck: StoredTransaction) => Call, signal: AbortSignal): Promise<MinedCall> {
    return this.#repairs(async () => {
      let stuck = await this.#stuck(hash)
      await this.#fillGap(stuck.accountNonce, signal)
      for (;;) {
        const last = await this.#deps.transactions.last()
        const transaction = await this.#sign(callOf(stuck), stuck.accountNonce, signal, stuck)
        const isSent = (await this.open()).some((one) => one.hash === transaction.hash)
        if (isSent || (await this.#add(transaction, last))) return this.#follow(transaction, signal)
        stuck = await this.#stuck(hash)
      }
    })
  }

  async #stuck(hash: Hex): Promise<StoredTransaction> {
    const stuck = (await this.open()).find((one) => one.hash === hash)
    if (stuck !== undefined) return stuck
    throw new TransactionError(
      'TRANSACTION_UNKNOWN',
      `no transaction ${hash} of this node is waiting: stoa transaction list shows those that are`,
    )
  }

  /** Fills nonces below `accountNonce` that another program dropped. Until then nothing later is mined. */
  async #fillGap(accountNonce: number, signal: AbortSignal): Promise<void> {
    const first = await countTransactions('pending', this.#deps, signal)
    for (let nonce = first; nonce < accountNonce && nonce < first + WAITING_MAX; nonce++)
      await this.#fill(nonce, signal)
  }

  /** Uses an account nonce up, by an empty transaction. @param stuck as for `#sign` */
  async #fill(nonce: number, signal: AbortSignal, stuck?: StoredTransaction): Promise<void> {
    const { wallet, transactions } = this.#deps
    const empty: Call = { purpose: `${ABANDON}account nonce ${nonce}`, to: wallet.address, data: '0x' }
    for (;;) {
      const last = await transactions.last()
      if ((await this.open()).some((one) => one.accountNonce === nonce)) return
      const transaction = await this.#sign(empty, nonce, signal, stuck)
      if (await this.#add(transaction, last)) return void (await this.#follow(transaction, signal))
    }
  }

  /** @param stuck the transaction to replace: nodes then require higher fees */
  async #sign(
    { purpose, to, data, value = 0n, key }: Call,
    accountNonce: number,
    signal: AbortSignal,
    stuck?: StoredTransaction,
  ): Promise<StoredTransaction> {
    const { chain, wallet } = this.#deps
    const account = wallet.address
    const tooPoor = (balance: bigint, cost?: bigint) =>
      tooPoorFor(value, { account, network: chain.network, balance, cost })
    const terms = await askTerms(chain, { call: { from: account, to, data, value }, stuck, tooPoor }, signal)
    const chainId = Number(chain.network.slice('eip155:'.length))
    const signed = wallet.signTransaction({ chainId, accountNonce, ...terms, to, data, value })
    const call = { to: lower(to), data: lower(data), value, key }
    return { purpose, network: chain.network, account, accountNonce, ...call, ...signed }
  }

  /** The result of a replacement that was mined. @throws TransactionError if the transaction was abandoned */
  async #rivalMined(transaction: StoredTransaction, signal: AbortSignal): Promise<MinedCall | undefined> {
    for (const rival of await this.#deps.transactions.rivals(transaction)) {
      const mined = await this.#ended(rival, signal)
      if (mined === undefined) continue
      if (rival.purpose === transaction.purpose) return mined
      const isLate = transaction.purpose.startsWith(ABANDON)
      const why = isLate
        ? `transaction ${rival.hash} was mined before it could be given up`
        : `transaction ${transaction.hash} was abandoned: ${rival.hash} took its place`
      throw new TransactionError('TRANSACTION_LOST', why)
    }
    if ((await this.open()).some(({ hash }) => hash === transaction.hash)) return undefined
    // Another caller saw its end, or the end of its replacement, first.
    const instead = await this.#deps.transactions.minedInstead(transaction)
    const mined = (await this.#ended(transaction, signal)) ?? (instead && (await this.#ended(instead, signal)))
    if (mined !== undefined) return mined
    throw new TransactionError(
      'TRANSACTION_LOST',
      `transaction ${transaction.hash} was replaced: check the other transaction`,
    )
  }

  /** Stores the end of a mined transaction. @throws TransactionError if it failed */
  async #ended(transaction: StoredTransaction, signal: AbortSignal): Promise<MinedCall | undefined> {
    const { chain, transactions, clock, tokenIn } = this.#deps
    const { hash } = transaction
    const receipt = parseReceipt(await chain.request('eth_getTransactionReceipt', [hash], signal))
    if (receipt?.transactionHash !== hash) return undefined
    if (receipt.succeeded) {
      const token = tokenIn(transaction, receipt.logs)
      await transactions.end(transaction, 'mined', clock.now(), token)
      return { hash, token }
    }
    await transactions.end(transaction, 'failed', clock.now())
    const why = `transaction ${hash} was mined and failed: its gas is spent, nothing else`
    throw new TransactionError('TRANSACTION_FAILED', why)
  }

  /** Sends a transaction as often as needed and waits until it is mined. */
  async #follow(transaction: StoredTransaction, signal: AbortSignal): Promise<MinedCall> {
    const { chain, transactions, clock, waitMs = WAIT_MS, pollMs = POLL_MS } = this.#deps
    const { hash, raw, accountNonce, account } = transaction
    const deadline = performance.now() + waitMs
    let looksLost = 0
    let refusal = ''
    for (let look = 0; ; look++) {
      const mined = (await this.#ended(transaction, signal)) ?? (await this.#rivalMined(transaction, signal))
      if (mined !== undefined) return mined
      // An RPC node that already has or mined the transaction refuses it again: that is no failure.
      if (look % 10 === 0) {
        refusal = await chain.request('eth_sendRawTransaction', [raw], signal).then(() => '', refusalOf)
        // Fees beyond gas, such as a rollup's data fee, show only now. The transaction is kept and sent again later.
        if (/insufficient funds/i.test(refusal)) {
          const balance = readQuantity(await chain.request('eth_getBalance', [account, 'latest'], signal))
          throw tooPoorFor(transaction.value, { account, network: chain.network, balance })
        }
      }
      const isPast = (await countTransactions('latest', this.#deps, signal)) > accountNonce
      // An RPC that shows the receipt late still knows the transaction.
      const isKnown = isPast && (await chain.request('eth_getTransactionByHash', [hash], signal)) !== null
      looksLost = isPast && !isKnown ? looksLost + 1 : 0
      if (looksLost > LOST_LOOKS) {
        await transactions.lose(hash, clock.now())
        const why = `another transaction of ${account} took the place of ${hash}, which can no longer happen`
        throw new TransactionError('TRANSACTION_LOST', `${why}: try again`)
      }
      if (performance.now() >= deadline) {
        const why = `transaction ${hash} is sent and not mined yet${refusal === '' ? '' : ` (the RPC says: ${refusal})`}`
        const advice = `ask again later, or: stoa transaction replace ${hash} pays more, stoa transaction abandon ${hash} gives it up`
        throw new TransactionError('TRANSACTION_PENDING', `${why}: ${advice}`)
      }
      await pause(look === 0 ? Math.min(FIRST_POLL_MS, pollMs) : pollMs, signal)
      signal.throwIfAborted()
    }
  }
}
