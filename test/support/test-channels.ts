import { type Abi, BaseError, decodeErrorResult, type Hex, parseEventLogs } from 'viem'
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { CHAIN_ID, type DevChain, NETWORK } from '../../devnet/chain.ts'
import { addresses, readArtifact } from '../../devnet/contracts.ts'
import { channelCalls, createChannelReader } from '../../src/chain/batch-settlement.ts'
import { createChain } from '../../src/chain/chain.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { assets } from '../../src/payments/assets.ts'
import { signDigest } from '../../src/payments/authorization.ts'
import {
  channelId,
  claimBatchDigest,
  depositDigest,
  depositNonce,
  refundDigest,
} from '../../src/payments/channel-digests.ts'
import { signVoucher } from '../../src/payments/voucher.ts'
import type { ChannelConfig } from '../../src/schema/channel.ts'
import { randomHash, secondsFromNow } from './signed-payment.ts'

const { contracts } = readArtifact()
export const channelAbi = contracts.BatchSettlement.abi as Abi
/** Every error that a call of a test can meet: those of the contract, its collectors and USDC. */
const errorAbi = [channelAbi, contracts.Erc3009DepositCollector.abi, contracts.UsdcLike.abi].flat() as Abi

export type TestAccount = PrivateKeyAccount & { key: Uint8Array }
type Row = Parameters<typeof channelCalls.claim>[0][number]

export function accountOf(privateKey: Hex = generatePrivateKey()): TestAccount {
  return { ...privateKeyToAccount(privateKey), key: Buffer.from(privateKey.slice(2), 'hex') }
}

/**
 * The parties of payment channels on a devnet. They sign and encode with this node's code, and the contract judges. The
 * payer's vouchers are signed by `session`, the receiver's claims and refunds by `authorizer`.
 */
export class TestChannels {
  readonly chain: DevChain
  readonly payer: TestAccount
  readonly session = accountOf()
  readonly receiver = accountOf()
  readonly authorizer = accountOf()
  readonly stranger = accountOf()
  readonly reader: ReturnType<typeof createChannelReader>

  constructor(chain: DevChain, payer = accountOf()) {
    this.chain = chain
    this.payer = payer
    const options = { network: NETWORK, asset: addresses.usdc, rpcUrl: chain.rpcUrl, timeoutMs: 30_000 } as const
    this.reader = createChannelReader(createChain(options, { logger: silentLogger }))
  }

  async start(): Promise<this> {
    const parties = [this.payer, this.session, this.receiver, this.authorizer, this.stranger]
    await Promise.all(parties.map(({ address }) => this.chain.fundGas(address)))
    await this.chain.mint(this.payer.address, 1_000_000_000n)
    return this
  }

  /** The terms of a new channel. */
  config(changes: Partial<ChannelConfig> = {}): ChannelConfig {
    return {
      payer: this.payer.address,
      payerAuthorizer: this.session.address,
      receiver: this.receiver.address,
      receiverAuthorizer: this.authorizer.address,
      token: addresses.usdc,
      withdrawDelay: 900,
      salt: randomHash(),
      ...changes,
    }
  }

  /** A new channel with a deposit. */
  async open(amount: bigint, changes: Partial<ChannelConfig> = {}): Promise<ChannelConfig> {
    const config = this.config(changes)
    await this.send(this.stranger, this.depositCall(config, amount))
    return config
  }

  id(config: ChannelConfig): Hex {
    return channelId(config, CHAIN_ID)
  }

  async state(config: ChannelConfig) {
    return (await this.reader.channels([this.id(config)]))[0]!
  }

  /** The call of a deposit that the payer has authorized. */
  depositCall(config: ChannelConfig, amount: bigint): Hex {
    return this.signedDeposit(config, amount).data
  }

  /** A deposit, and the payer's authorization in it. */
  signedDeposit(config: ChannelConfig, amount: bigint, window: { validAfter?: bigint; validBefore?: bigint } = {}) {
    const terms = { validAfter: 0n, validBefore: secondsFromNow(100_000_000), salt: randomHash(), ...window }
    const deposit = { ...terms, channelId: this.id(config), payer: config.payer as Hex, amount }
    const signature = signDigest(depositDigest(deposit, assets[NETWORK]), this.payer.key)
    const authorization = { ...terms, nonce: depositNonce(deposit), signature }
    return { data: channelCalls.deposit(config, amount, authorization), authorization }
  }

  /** A row of a claim, by a voucher for `max` that `signer` has signed. */
  row(config: ChannelConfig, totalClaimed: bigint, { max = totalClaimed, signer = this.session } = {}): Row {
    const voucher = { channelId: this.id(config), maxClaimableAmount: max }
    const { signature } = signVoucher(voucher, signer.key, CHAIN_ID)
    return { config, maxClaimableAmount: max, signature: signature as Hex, totalClaimed }
  }

  /** A claim that anyone may send, because the receiver's authorizer has signed it. */
  signedClaim(rows: readonly Row[], signer = this.authorizer): Hex {
    const entries = rows.map(({ config, maxClaimableAmount, totalClaimed }) => ({
      ...{ channelId: this.id(config), maxClaimableAmount, totalClaimed },
    }))
    return channelCalls.claimWithSignature(rows, signDigest(claimBatchDigest(entries, CHAIN_ID), signer.key))
  }

  signedRefund(config: ChannelConfig, amount: bigint, nonce: bigint, signer = this.authorizer): Hex {
    const digest = refundDigest({ channelId: this.id(config), nonce, amount }, CHAIN_ID)
    return channelCalls.refundWithSignature(config, { amount, nonce, signature: signDigest(digest, signer.key) })
  }

  /** Sends a call and returns the events of the contract, each as its name and its arguments without the sender. */
  async send(account: TestAccount, data: Hex): Promise<[string, Record<string, unknown>][]> {
    const { client } = this.chain
    const to = addresses.batchSettlement
    // An estimate would hide the reason of a revert. A batch of a hundred claims needs 3,000,000.
    await client.call({ account: account.address, to, data })
    const hash = await client.sendTransaction({ account, to, data, gas: 5_000_000n })
    const receipt = await client.waitForTransactionReceipt({ hash })
    if (receipt.status !== 'success') throw new Error(`transaction ${hash} has failed`)
    const logs = parseEventLogs({ abi: channelAbi, logs: receipt.logs }) as unknown as {
      eventName: string
      args: Record<string, unknown>
    }[]
    return logs.map(({ eventName, args: { sender: _, ...args } }) => [eventName, args])
  }

  /** The name of the error that a call meets, or the reason that USDC gives. Fails if the call succeeds. */
  async errorOf(account: TestAccount, data: Hex, to: Hex | null = addresses.batchSettlement): Promise<string> {
    try {
      await this.chain.client.call({ account: account.address, to, data })
    } catch (error) {
      const revert = error instanceof BaseError && error.walk((cause) => typeof (cause as Revert).data === 'string')
      if (!revert) throw error
      const { errorName, args } = decodeErrorResult({ abi: errorAbi, data: (revert as unknown as Revert).data })
      return errorName === 'Error' ? String(args?.[0]) : errorName
    }
    throw new Error('the call succeeds')
  }

  /** Moves the time of the chain. Blocks that follow keep the distance. */
  async wait(seconds: number): Promise<void> {
    await this.chain.client.increaseTime({ seconds })
    await this.chain.mine()
  }
}

type Revert = { data: Hex }
