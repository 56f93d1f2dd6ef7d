import { type Abi, concatHex, encodeFunctionData, type Hash, type Hex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { reasonOf } from '../src/lib/errors.ts'
import type { FacilitatorClient } from './facilitator-client.ts'

/** Fees in wei per gas, far above what blocks of a devnet ask. */
const FEES = { maxFeePerGas: 100_000_000_000n, maxPriorityFeePerGas: 1_000_000_000n }

export type ContractWrite = {
  address: Hex
  abi: readonly unknown[]
  functionName: string
  args: readonly unknown[]
  gas?: bigint
  dataSuffix?: Hex
}

/**
 * Sends the transactions of one account, each with the next account nonce.
 *
 * A nonce counts as used only after the chain accepts the transaction. A nonce assigned earlier would be lost when the
 * chain refuses the transaction, and the gap would stall every later transaction. Anyone could cause such a gap by
 * replaying a used payment.
 */
export class GasAccount {
  readonly #client: FacilitatorClient
  readonly #account: PrivateKeyAccount
  #nextNonce: number | undefined
  #turn: Promise<unknown> = Promise.resolve()

  constructor(key: Hex, client: FacilitatorClient) {
    this.#client = client
    this.#account = privateKeyToAccount(key)
  }

  get address(): Hex {
    return this.#account.address
  }

  /** Reads the account nonce again before the next transaction: the chain may have taken back blocks, with their nonces. */
  forgetNonce(): void {
    this.#nextNonce = undefined
  }

  /** @throws viem's error with the contract's reason if the call would revert. */
  async write(call: ContractWrite): Promise<Hash> {
    const { address, functionName, args } = call
    const abi = call.abi as Abi
    // The estimate runs outside the queue: a call that would revert is refused here and uses no nonce.
    const estimate = { address, abi, functionName, args, account: this.#account.address }
    const gas = call.gas ?? ((await this.#client.estimateContractGas(estimate as never)) * 5n) / 4n
    const calldata = encodeFunctionData({ abi, functionName, args })
    const data = call.dataSuffix === undefined ? calldata : concatHex([calldata, call.dataSuffix])
    return this.send({ to: address, data, gas })
  }

  send(transaction: { to: Hex; data: Hex; gas: bigint }): Promise<Hash> {
    const sent = this.#turn.then(() => this.#sendNext(transaction))
    this.#turn = sent.catch(() => {})
    return sent
  }

  async #sendNext(transaction: { to: Hex; data: Hex; gas: bigint }): Promise<Hash> {
    try {
      return await this.#sendOnce(transaction)
    } catch (error) {
      // Another program used the account, or the chain was restarted: read the nonce again, once.
      if (!/nonce/i.test(reasonOf(error))) throw error
      return this.#sendOnce(transaction)
    }
  }

  async #sendOnce(transaction: { to: Hex; data: Hex; gas: bigint }): Promise<Hash> {
    try {
      const { address } = this.#account
      const nonce = this.#nextNonce ?? (await this.#client.getTransactionCount({ address, blockTag: 'pending' }))
      const chainId = this.#client.chain.id
      const request = { ...transaction, ...FEES, nonce, chainId, type: 'eip1559' } as const
      const serializedTransaction = await this.#account.signTransaction(request)
      const hash = await this.#client.sendRawTransaction({ serializedTransaction })
      this.#nextNonce = nonce + 1
      return hash
    } catch (error) {
      this.#nextNonce = undefined
      throw error
    }
  }
}
