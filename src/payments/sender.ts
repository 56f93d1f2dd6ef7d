import { setTimeout as wait } from 'node:timers/promises'
import { parseReceipt } from '../chain/answers.ts'
import type { Chain } from '../chain/chain.ts'
import type { Log } from '../chain/usdc.ts'
import type { Clock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { Hex } from '../schema/primitives.ts'
import type { AgentToken, StoredTransaction, Transactions } from '../store/transactions.ts'
import { bumped, larger, readFees } from './transaction.ts'
import { asRevert, ether, readQuantity, refusalOf, TransactionError } from './transaction-error.ts'
import type { Wallet } from './wallet.ts'

/** More than any call of ours needs; a chain that asks for more has lost its senses, or its RPC lies (T13). */
const COST_MAX = 10n ** 16n
const GAS_MAX = 5_000_000n
const WAIT_MS = 60_000
const POLL_MS = 1_000
const FIRST_POLL_MS = 100
/**
 * Looks in a row at which the account is past our transaction and nobody knows it. Then another one has taken its place. RPC nodes
 * show a receipt some seconds late.
 */
const LOST_LOOKS = 20
/** Transactions of the account that may wait before ours. More, or fewer than none, is a wrong answer of the RPC. */
const WAITING_MAX = 16
const ABANDON = 'abandon '

export type Call = { purpose: string; to: Hex; data: Hex }
/** A transaction that happened, and what it minted. */
export type Mined = { hash: Hex; token: AgentToken | undefined }

export type SenderDeps = {
  chain: Pick<Chain, 'network' | 'request'>
  wallet: Pick<Wallet, 'address' | 'signTransaction'>
  transactions: Transactions
  clock: Clock
  /** Reads what a transaction minted out of its logs. It is stored together with its end, whoever waited for it. */
  tokenIn(transaction: StoredTransaction, logs: readonly Log[]): AgentToken | undefined
  /** How long one call waits for its transaction. */
  waitMs?: number
  pollMs?: number
}

/**
 * Sends transactions of this node's account, one after the other, none of them twice.
 *
 * 1. what was sent before and never seen mined is sent again, byte for byte: its account nonce lets it happen once
 * 2. what would revert, or cannot be paid for, is refused before anything is signed
 * 3. sign, store, send: in this order, so that after a crash it is the same transaction that is sent again
 * 4. wait for its receipt; when that takes too long the next call goes on waiting, with the same transaction
 */
export class Sender {
  readonly #deps: SenderDeps
  #lane: Promise<unknown> = Promise.resolve()
  #repairs: Promise<unknown> = Promise.resolve()

  constructor(deps: SenderDeps) {
    this.#deps = deps
  }

  /**
   * @param make gives the call, or throws where there is nothing to do: asked when it is this call's turn, and again when
   * what was sent before has ended
   * @throws TransactionError, ChainError
   */
  send(make: () => Call, signal: AbortSignal): Promise<Mined> {
    const sent = this.#lane.then(() => this.#sendNext(make, signal))
    this.#lane = sent.catch(() => {})
    return sent
  }

  async #sendNext(make: () => Call, signal: AbortSignal): Promise<Mined> {
    const call = make()
    const { chain, wallet, transactions, clock } = this.#deps
    for (const earlier of transactions.open(chain.network, wallet.address)) {
      const isOurs =
        earlier.purpose === call.purpose && earlier.to === lower(call.to) && earlier.data === lower(call.data)
      const mined = await this.#follow(earlier, signal).catch((error: unknown) => {
        // That another one came to nothing is for whoever wanted it.
        const isOver = error instanceof TransactionError && error.code !== 'TRANSACTION_PENDING'
        if (isOurs || !isOver) throw error
      })
      if (isOurs && mined !== undefined) return mined
    }
    const transaction = await this.#prepare(make(), signal)
    await transactions.add(transaction, clock.now())
    return this.#follow(transaction, signal)
  }

  /** Transactions that were sent and whose end is not known, the oldest first. */
  open(): StoredTransaction[] {
    const { chain, wallet, transactions } = this.#deps
    return transactions.open(chain.network, wallet.address)
  }

  /**
   * Sends a transaction that does not get mined again with higher fees. It has the same account nonce, so one of the two happens.
   *
   * @throws TransactionError, ChainError
   */
  replace(hash: Hex, signal: AbortSignal): Promise<Mined> {
    return this.#instead(hash, ({ purpose, to, data }) => ({ purpose, to, data }), signal)
  }

  /** Has a transaction of nothing take the place of one that does not get mined. @throws TransactionError, ChainError */
  abandon(hash: Hex, signal: AbortSignal): Promise<Mined> {
    const { address: to } = this.#deps.wallet
    return this.#instead(hash, () => ({ purpose: `${ABANDON}${hash}`, to, data: '0x' }), signal)
  }

  #instead(hash: Hex, callOf: (stuck: StoredTransaction) => Call, signal: AbortSignal): Promise<Mined> {
    // Ahead of the lane: what waits there waits for this very transaction.
    const work = async () => {
      const stuck = this.open().find((one) => one.hash === hash)
      if (stuck === undefined) {
        throw new TransactionError(
          'TRANSACTION_UNKNOWN',
          `no transaction ${hash} of this node waits: see those that do`,
        )
      }
      await this.#fillGap(stuck.accountNonce, signal)
      const transaction = await this.#sign(callOf(stuck), stuck.accountNonce, signal, stuck)
      await this.#deps.transactions.add(transaction, this.#deps.clock.now())
      return this.#follow(transaction, signal)
    }
    const done = this.#repairs.then(work)
    this.#repairs = done.catch(() => {})
    return done
  }

  /** A transaction of somebody else with this key was dropped: nothing of the account goes on until its nonce is used. */
  async #fillGap(accountNonce: number, signal: AbortSignal): Promise<void> {
    const { wallet, transactions, clock } = this.#deps
    const ours = new Set(this.open().map((one) => one.accountNonce))
    const first = await this.#count('pending', signal)
    for (let nonce = first; nonce < accountNonce && nonce < first + WAITING_MAX; nonce++) {
      if (ours.has(nonce)) continue
      const empty: Call = { purpose: `${ABANDON}account nonce ${nonce}`, to: wallet.address, data: '0x' }
      const transaction = await this.#sign(empty, nonce, signal)
      await transactions.add(transaction, clock.now())
      await this.#follow(transaction, signal)
    }
  }

  async #count(block: 'latest' | 'pending', signal: AbortSignal): Promise<number> {
    const { chain, wallet } = this.#deps
    return Number(readQuantity(await chain.request('eth_getTransactionCount', [wallet.address, block], signal)))
  }

  /** @throws CodedError CHAIN_UNAVAILABLE for numbers that cannot be: a transaction with such a nonce would block the account */
  async #nextNonce(signal: AbortSignal): Promise<number> {
    const { chain, wallet, transactions } = this.#deps
    const [latest, pending] = await Promise.all([this.#count('latest', signal), this.#count('pending', signal)])
    const known = transactions.nextNonce(chain.network, wallet.address)
    if (latest >= known && pending >= latest && pending <= latest + WAITING_MAX) return pending
    const said = `the RPC counts ${latest} transactions of ${wallet.address}, ${pending} with those that wait, and this node knows of ${known}`
    throw new CodedError('CHAIN_UNAVAILABLE', `${said}: nothing was sent; try again, or use another RPC`)
  }

  async #prepare(call: Call, signal: AbortSignal): Promise<StoredTransaction> {
    return this.#sign(call, await this.#nextNonce(signal), signal)
  }

  /** @param stuck the one whose place it takes: nodes want higher fees then */
  async #sign(
    { purpose, to, data }: Call,
    accountNonce: number,
    signal: AbortSignal,
    stuck?: StoredTransaction,
  ): Promise<StoredTransaction> {
    const { chain, wallet } = this.#deps
    const account = wallet.address
    const from = { from: account, to, data }
    const quantity = async (method: string, params: readonly unknown[]) =>
      readQuantity(await chain.request(method, params, signal))
    const [balance, block] = await Promise.all([
      this.#balance(signal),
      chain.request('eth_getBlockByNumber', ['latest', false], signal),
    ])
    if (balance === 0n) throw this.#noGas(0n, undefined)
    const [estimate, suggestedTip, gasPrice] = await Promise.all([
      quantity('eth_estimateGas', [from]).catch((error: unknown) => asRevert(error, this.#noGas(balance, undefined))),
      quantity('eth_maxPriorityFeePerGas', []).catch(() => 1_000_000n),
      quantity('eth_gasPrice', []).catch(() => 0n),
    ])
    const gas = (estimate * 5n) / 4n
    const before = stuck && readFees(stuck.raw)
    const tip = larger(suggestedTip, bumped(before?.maxPriorityFeePerGas))
    // The base fee can double in six blocks. A block that names too low a fee is outvoted by the gas price.
    const baseFee = readQuantity((block as { baseFeePerGas?: unknown } | null)?.baseFeePerGas)
    const maxFeePerGas = larger(larger(2n * baseFee + tip, gasPrice), bumped(before?.maxFeePerGas))
    const cost = gas * maxFeePerGas
    if (gas > GAS_MAX || cost > COST_MAX) {
      throw new TransactionError(
        'TRANSACTION_REVERTED',
        `the chain asks for up to ${ether(cost)} ETH of gas, the limit is ${ether(COST_MAX)}: nothing was sent`,
      )
    }
    if (balance < cost) throw this.#noGas(balance, cost)
    const chainId = Number(chain.network.slice('eip155:'.length))
    const fees = { maxPriorityFeePerGas: tip, maxFeePerGas }
    const signed = wallet.signTransaction({ chainId, accountNonce, ...fees, gas, to, data })
    const call = { to: lower(to), data: lower(data) }
    return { purpose, network: chain.network, account, accountNonce, ...call, ...signed }
  }

  /** The others with the same account nonce: one of them happens. */
  #rivals({ accountNonce, hash }: StoredTransaction): StoredTransaction[] {
    return this.open().filter((one) => one.accountNonce === accountNonce && one.hash !== hash)
  }

  /** What came of a replacement, once it is mined. @throws TransactionError when the transaction was abandoned */
  async #rivalMined(transaction: StoredTransaction, signal: AbortSignal): Promise<Mined | undefined> {
    for (const rival of this.#rivals(transaction)) {
      const mined = await this.#ended(rival, signal)
      if (mined === undefined) continue
      if (rival.purpose === transaction.purpose) return mined
      const why = `transaction ${transaction.hash} was abandoned: ${rival.hash} took its place`
      throw new TransactionError('TRANSACTION_LOST', why)
    }
    if (this.open().some(({ hash }) => hash === transaction.hash)) return undefined
    throw new TransactionError('TRANSACTION_LOST', `transaction ${transaction.hash} was replaced: look what came of it`)
  }

  /** Stores the end of a transaction that was mined. @throws TransactionError when it failed */
  async #ended(transaction: StoredTransaction, signal: AbortSignal): Promise<Mined | undefined> {
    const { chain, transactions, clock, tokenIn } = this.#deps
    const { hash } = transaction
    const receipt = parseReceipt(await chain.request('eth_getTransactionReceipt', [hash], signal))
    if (receipt?.transactionHash !== hash) return undefined
    const rivals = this.#rivals(transaction)
    const lose = () => Promise.all(rivals.map((rival) => transactions.end(rival.hash, 'lost', clock.now())))
    if (receipt.succeeded) {
      const token = tokenIn(transaction, receipt.logs)
      await transactions.end(hash, 'mined', clock.now(), token)
      await lose()
      return { hash, token }
    }
    await transactions.end(hash, 'failed', clock.now())
    await lose()
    const why = `transaction ${hash} was mined and failed: its gas is spent, nothing else`
    throw new TransactionError('TRANSACTION_FAILED', why)
  }

  /** Sends it as often as it takes, and waits until it is mined. */
  async #follow(transaction: StoredTransaction, signal: AbortSignal): Promise<Mined> {
    const { chain, transactions, clock, waitMs = WAIT_MS, pollMs = POLL_MS } = this.#deps
    const { hash, raw, accountNonce, account } = transaction
    const deadline = performance.now() + waitMs
    let looksLost = 0
    let refusal = ''
    for (let look = 0; ; look++) {
      const mined = (await this.#ended(transaction, signal)) ?? (await this.#rivalMined(transaction, signal))
      if (mined !== undefined) return mined
      // A node that has it says so, one that has seen it mined too: neither is an answer.
      if (look % 10 === 0) {
        refusal = await chain.request('eth_sendRawTransaction', [raw], signal).then(() => '', refusalOf)
        // Fees beyond gas, such as for the data of a rollup, show only now. It is kept, and sent again once there is ether.
        if (/insufficient funds/i.test(refusal)) throw this.#noGas(await this.#balance(signal), undefined)
      }
      const isPast = (await this.#count('latest', signal)) > accountNonce
      // An RPC that shows the receipt late still knows the transaction.
      const isKnown = isPast && (await chain.request('eth_getTransactionByHash', [hash], signal)) !== null
      looksLost = isPast && !isKnown ? looksLost + 1 : 0
      if (looksLost > LOST_LOOKS) {
        await transactions.end(hash, 'lost', clock.now())
        const why = `another transaction of ${account} took the place of ${hash}, which can no longer happen`
        throw new TransactionError('TRANSACTION_LOST', `${why}: try again`)
      }
      if (performance.now() >= deadline) {
        const why = `transaction ${hash} is sent and not mined yet${refusal === '' ? '' : ` (the RPC says: ${refusal})`}`
        const advice = `ask again later, or: stoa transaction replace ${hash} pays more, stoa transaction abandon ${hash} gives it up`
        throw new TransactionError('TRANSACTION_PENDING', `${why}: ${advice}`)
      }
      await wait(look === 0 ? Math.min(FIRST_POLL_MS, pollMs) : pollMs, undefined, { signal })
    }
  }

  async #balance(signal: AbortSignal): Promise<bigint> {
    const { chain, wallet } = this.#deps
    return readQuantity(await chain.request('eth_getBalance', [wallet.address, 'latest'], signal))
  }

  #noGas(balance: bigint, cost: bigint | undefined): TransactionError {
    const { wallet, chain } = this.#deps
    const needed = cost === undefined ? 'a little ETH' : `about ${ether(cost)} ETH`
    const has = `the wallet ${wallet.address} has ${ether(balance)} ETH on ${chain.network}`
    return new TransactionError(
      'WALLET_NO_GAS',
      `${has}; writing to the chain needs ${needed} for gas: send it some, nothing was sent`,
    )
  }
}

function lower(hex: Hex): Hex {
  return hex.toLowerCase() as Hex
}
