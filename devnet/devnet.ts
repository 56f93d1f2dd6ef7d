import type { Hex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { type DevChain, startChain } from './chain.ts'
import { type Facilitator, startFacilitator } from './facilitator.ts'

export type Wallet = { readonly address: Hex; readonly privateKey: Hex }

/** A local market's ground: a chain with USDC, a facilitator, a seller's and a buyer's wallet with money in them. */
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
  /** Ports; 0, the default, takes a free one. */
  rpcPort?: number
  facilitatorPort?: number
  /** Path of an anvil binary, where npm has none for this machine. */
  anvil?: string
  /** Keys; the default is new ones. */
  gasKey?: Hex
  sellerKey?: Hex
  buyerKey?: Hex
  /** USDC at the start, atomic units: 10 and 100 USDC unless told. */
  sellerAmount?: bigint
  buyerAmount?: bigint
  /** See FacilitatorOptions. */
  confirmationTimeoutMs?: number
}

const SELLER_AMOUNT = 10_000_000n
const BUYER_AMOUNT = 100_000_000n

/** Starts all of it; what was started is stopped again when a later part fails. @throws AnvilError, CodedError */
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

/** Enough for any bench: a million settlements and more. */
const GAS_OF_FACILITATOR = 10n ** 24n

async function stopAll(chain: DevChain, facilitator: Facilitator | undefined): Promise<void> {
  await facilitator?.stop()
  await chain.stop()
}

function createWallet(privateKey: Hex = generatePrivateKey()): Wallet {
  return { address: privateKeyToAccount(privateKey).address, privateKey }
}

type Defined<T> = { [Key in keyof T]?: Exclude<T[Key], undefined> }

/** The options that were given: `undefined` is not a value under exactOptionalPropertyTypes. */
function defined<T extends object>(options: T): Defined<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Defined<T>
}
