import type { Hex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { type DevChain, startChain } from './chain.ts'
import { type Facilitator, startFacilitator } from './facilitator.ts'

export type Wallet = { readonly address: Hex; readonly privateKey: Hex }

/** The base of a local market: a chain with USDC, a facilitator, and funded wallets of a seller and a buyer. */
export type Devnet = {
  readonly rpcUrl: string
  readonly facilitatorUrl: string
  readonly chain: DevChain
  readonly facilitator: Facilitator
  readonly wallets: { readonly seller: Wallet; readonly buyer: Wallet }
  /** Gives an account USDC (atomic units) and ETH for gas. */
  fund(address: Hex, usdc: bigint): Promise<void>
  stop(): Promise<void>
}

export type DevnetOptions = {
  /** Ports. The default, 0, picks a free port. */
  rpcPort?: number
  facilitatorPort?: number
  /** Path of an anvil binary, for machines without an npm package of anvil. */
  anvil?: string
  /** Private keys. New keys are the default. */
  gasKey?: Hex
  sellerKey?: Hex
  buyerKey?: Hex
  /** USDC at the start, in atomic units. The default is 10 USDC for the seller and 100 USDC for the buyer. */
  sellerAmount?: bigint
  buyerAmount?: bigint
  /** See FacilitatorOptions. */
  confirmationTimeoutMs?: number
}

const SELLER_AMOUNT = 10_000_000n
const BUYER_AMOUNT = 100_000_000n

/** Starts all parts. If a part fails to start, the parts before it are stopped. @throws AnvilError, CodedError */
export async function startDevnet(options: DevnetOptions = {}): Promise<Devnet> {
  const { rpcPort: port, facilitatorPort, anvil, gasKey, confirmationTimeoutMs } = options
  const chain = await startChain(defined({ port, anvil }))
  let facilitator: Facilitator | undefined
  try {
    facilitator = await startFacilitator({
      rpcUrl: chain.rpcUrl,
      ...defined({ port: facilitatorPort, gasKey, confirmationTimeoutMs }),
    })
    const wallets = { seller: createWallet(options.sellerKey), buyer: createWallet(options.buyerKey) }
    const fund = async (address: Hex, usdc: bigint) => {
      await Promise.all([chain.fundGas(address), usdc > 0n ? chain.mint(address, usdc) : undefined])
    }
    await Promise.all([
      chain.fundGas(facilitator.address, GAS_OF_FACILITATOR),
      fund(wallets.seller.address, options.sellerAmount ?? SELLER_AMOUNT),
      fund(wallets.buyer.address, options.buyerAmount ?? BUYER_AMOUNT),
    ])
    return {
      rpcUrl: chain.rpcUrl,
      facilitatorUrl: facilitator.url,
      chain,
      facilitator,
      wallets,
      fund,
      stop: () => stopAll(chain, facilitator),
    }
  } catch (error) {
    await stopAll(chain, facilitator)
    throw error
  }
}

/** ETH for gas, in wei: enough for more than a million settlements, so for any bench. */
const GAS_OF_FACILITATOR = 10n ** 24n

async function stopAll(chain: DevChain, facilitator: Facilitator | undefined): Promise<void> {
  await facilitator?.stop()
  await chain.stop()
}

function createWallet(privateKey: Hex = generatePrivateKey()): Wallet {
  return { address: privateKeyToAccount(privateKey).address, privateKey }
}

type Defined<T> = { [Key in keyof T]?: Exclude<T[Key], undefined> }

/** Drops options that are `undefined`, which exactOptionalPropertyTypes does not allow as a value. */
function defined<T extends object>(options: T): Defined<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Defined<T>
}
