import { x402Facilitator } from '@x402/core/facilitator'
import type { SettleResponse, SupportedResponse, VerifyResponse } from '@x402/core/types'
import { toFacilitatorEvmSigner } from '@x402/evm'
import { BatchSettlementEvmScheme } from '@x402/evm/batch-settlement/facilitator'
import { ExactEvmScheme } from '@x402/evm/exact/facilitator'
import type { Hash, Hex } from 'viem'
import { NETWORK } from './chain.ts'
import { addresses } from './contracts.ts'
import { createFacilitatorClient } from './facilitator-client.ts'
import { type ContractWrite, GasAccount } from './gas-account.ts'
import type { PaymentBody } from './payment-body.ts'

/** The reference x402 implementation, bound to one chain and one gas account. */
export type Settlement = {
  readonly address: Hex
  verify(body: PaymentBody): Promise<VerifyResponse>
  settle(body: PaymentBody): Promise<SettleResponse>
  supported(): SupportedResponse
}

export type SettlementOptions = { rpcUrl: string; gasKey: Hex; confirmationTimeoutMs: number }

/** @throws Error when the chain has no USDC. */
export async function createSettlement(options: SettlementOptions): Promise<Settlement> {
  const client = createFacilitatorClient(options.rpcUrl)
  const usdcCode = await client.getCode({ address: addresses.usdc })
  if (usdcCode === undefined) throw new Error(`the chain at ${options.rpcUrl} has no USDC at ${addresses.usdc}`)
  const gas = new GasAccount(options.gasKey, client)
  const settling = new Map<string, Promise<SettleResponse>>()

  /**
   * Answers without asking the chain for USDC's code. The reference starts that look-up beside its other checks and
   * does not await it if another check refuses first. A failed look-up (chain down) would then end the process with an
   * unhandled rejection.
   */
  async function getCode({ address }: { address: Hex }): Promise<Hex | undefined> {
    return address.toLowerCase() === addresses.usdc.toLowerCase() ? usdcCode : client.getCode({ address })
  }

  const signer = toFacilitatorEvmSigner(
    {
      address: gas.address,
      getCode,
      readContract: (call) => client.readContract(call as never),
      verifyTypedData: (message) => client.verifyTypedData(message as never),
      writeContract: (call) => gas.write(call as ContractWrite),
      sendTransaction: () => Promise.reject(new Error('this facilitator does not deploy smart wallets')),
      waitForTransactionReceipt: ({ hash, timeout }) => waitForReceipt(hash, timeout),
    },
    { confirmationTimeoutMs: options.confirmationTimeoutMs },
  )
  // Registers this network alone. With two networks the reference would accept any EVM network. The scheme of channels
  // gets no receiver's key: with one it would sign a refund for anybody who asks.
  const reference = new x402Facilitator()
    .register(NETWORK, new ExactEvmScheme(signer))
    .register(NETWORK, new BatchSettlementEvmScheme(signer))

  async function waitForReceipt(hash: Hash, timeout: number | undefined) {
    try {
      return await client.waitForTransactionReceipt({ hash, ...(timeout === undefined ? {} : { timeout }) })
    } catch (error) {
      // Behind a gap of account nonces it would wait for ever, and so would all that follow.
      gas.forgetNonce()
      throw error
    }
  }

  return {
    address: gas.address,
    verify: ({ paymentPayload, paymentRequirements }) => reference.verify(paymentPayload, paymentRequirements),
    supported: () => reference.getSupported() as SupportedResponse,

    /** Identical payments share the outcome while the first is being settled. The chain refuses a later replay. */
    settle: (body) => {
      const key = keyOf(body)
      const running = settling.get(key)
      if (running !== undefined) return running
      const settlement = reference
        .settle(body.paymentPayload, body.paymentRequirements)
        .finally(() => settling.delete(key))
      settling.set(key, settlement)
      return settlement
    },
  }
}

/** The key covers everything that decides the outcome. Another payment with the same nonce must get its own answer. */
function keyOf({ paymentPayload, paymentRequirements }: PaymentBody): string {
  return JSON.stringify([paymentPayload.accepted, paymentPayload.payload, paymentRequirements])
}
