import { setTimeout as wait } from 'node:timers/promises'
import { parseReceipt } from '../chain/answers.ts'
import type { Chain } from '../chain/chain.ts'
import { RpcRefusal } from '../chain/rpc.ts'
import type { Log } from '../chain/usdc.ts'
import type { Clock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import { formatAmount } from '../schema/amount.ts'
import type { Hex } from '../schema/primitives.ts'
import type { AgentToken, StoredTransaction, Transactions } from '../store/transactions.ts'
import type { Wallet } from './wallet.ts'

/** More than any call of ours needs; a chain that asks for more has lost its senses, or its RPC lies (T13). */
const COST_MAX = 10n ** 16n
const GAS_MAX = 5_000_000n
const WAIT_MS = 60_000
const POLL_MS = 1_000
const FIRST_POLL_MS = 100
/** Somebody else's transaction has taken the place of ours for certain when it is seen as often as this. */
const LOST_LOOKS = 5
const ETHER_DECIMALS = 18

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

export class TransactionError extends CodedError<
  'WALLET_NO_GAS' | 'TRANSACTION_REVERTED' | 'TRANSACTION_FAILED' | 'TRANSACTION_PENDING' | 'TRANSACTION_LOST'
> {
  override name = 'TransactionError'
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

  async #prepare({ purpose, to, data }: Call, signal: AbortSignal): Promise<StoredTransaction> {
    const { chain, wallet } = this.#deps
    const account = wallet.address
    const from = { from: account, to, data }
    const quantity = async (method: string, params: readonly unknown[]) =>
      readQuantity(await chain.request(method, params, signal))
    const [balance, nonce, block] = await Promise.all([
      this.#balance(signal),
      quantity('eth_getTransactionCount', [account, 'pending']),
      chain.request('eth_getBlockByNumber', ['latest', false], signal),
    ])
    if (balance === 0n) throw this.#noGas(0n, undefined)
    const [estimate, tip] = await Promise.all([
      quantity('eth_estimateGas', [from]).catch((error: unknown) => asRevert(error, this.#noGas(balance, undefined))),
      quantity('eth_maxPriorityFeePerGas', []).catch(() => 1_000_000n),
    ])
    const gas = (estimate * 5n) / 4n
    // The base fee can double in six blocks.
    const maxFeePerGas = 2n * readQuantity((block as { baseFeePerGas?: unknown } | null)?.baseFeePerGas) + tip
    const cost = gas * maxFeePerGas
    if (gas > GAS_MAX || cost > COST_MAX) {
      throw new TransactionError(
        'TRANSACTION_REVERTED',
        `the chain asks for up to ${ether(cost)} ETH of gas, the limit is ${ether(COST_MAX)}: nothing was sent`,
      )
    }
    if (balance < cost) throw this.#noGas(balance, cost)
    const chainId = Number(chain.network.slice('eip155:'.length))
    const accountNonce = Number(nonce)
    const fees = { maxPriorityFeePerGas: tip, maxFeePerGas }
    const signed = wallet.signTransaction({ chainId, accountNonce, ...fees, gas, to, data })
    const call = { to: lower(to), data: lower(data) }
    return { purpose, network: chain.network, account, accountNonce, ...call, ...signed }
  }

  /** Sends it as often as it takes, and waits until it is mined. */
  async #follow(transaction: StoredTransaction, signal: AbortSignal): Promise<Mined> {
    const { chain, transactions, clock, tokenIn, waitMs = WAIT_MS, pollMs = POLL_MS } = this.#deps
    const { hash, raw, accountNonce, account } = transaction
    const deadline = performance.now() + waitMs
    let looksLost = 0
    let refusal = ''
    for (let look = 0; ; look++) {
      const receipt = parseReceipt(await chain.request('eth_getTransactionReceipt', [hash], signal))
      if (receipt?.transactionHash === hash && receipt.succeeded) {
        const token = tokenIn(transaction, receipt.logs)
        await transactions.end(hash, 'mined', clock.now(), token)
        return { hash, token }
      }
      if (receipt?.transactionHash === hash) {
        await transactions.end(hash, 'failed', clock.now())
        throw new TransactionError(
          'TRANSACTION_FAILED',
          `transaction ${hash} was mined and failed: its gas is spent, nothing else`,
        )
      }
      // A node that has it says so, one that has seen it mined too: neither is an answer.
      if (look % 10 === 0) {
        refusal = await chain.request('eth_sendRawTransaction', [raw], signal).then(() => '', refusalOf)
        // Fees beyond gas, such as for the data of a rollup, show only now. It is kept, and sent again once there is ether.
        if (/insufficient funds/i.test(refusal)) throw this.#noGas(await this.#balance(signal), undefined)
      }
      const done = readQuantity(await chain.request('eth_getTransactionCount', [account, 'latest'], signal))
      looksLost = done > BigInt(accountNonce) ? looksLost + 1 : 0
      if (looksLost > LOST_LOOKS) {
        await transactions.end(hash, 'lost', clock.now())
        const why = `another transaction of ${account} took the place of ${hash}, which can no longer happen`
        throw new TransactionError('TRANSACTION_LOST', `${why}: try again`)
      }
      if (performance.now() >= deadline) {
        const why = `transaction ${hash} is sent and not mined yet${refusal === '' ? '' : ` (the RPC says: ${refusal})`}`
        throw new TransactionError('TRANSACTION_PENDING', `${why}: ask again later; it is never sent as another one`)
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

function asRevert(error: unknown, noGas: TransactionError): never {
  if (!(error instanceof RpcRefusal)) throw error
  if (!error.isRevert && /insufficient funds/i.test(error.message)) throw noGas
  if (!error.isRevert) throw error
  const reason = error.message.replace(/^.*\): /, '').slice(0, 300)
  throw new TransactionError('TRANSACTION_REVERTED', `the contract refuses it: ${reason}; nothing was sent`, {
    cause: error,
  })
}

function refusalOf(error: unknown): string {
  if (!(error instanceof RpcRefusal)) throw error
  return error.message.replace(/^.*\): /, '').slice(0, 200)
}

function readQuantity(result: unknown): bigint {
  if (typeof result === 'string' && /^0x[0-9a-fA-F]{1,64}$/.test(result)) return BigInt(result)
  throw new CodedError('CHAIN_UNAVAILABLE', 'the RPC answered something that is not a number')
}

function ether(wei: bigint): string {
  return formatAmount(wei, ETHER_DECIMALS)
}

function lower(hex: Hex): Hex {
  return hex.toLowerCase() as Hex
}
