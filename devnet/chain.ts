import {
  createTestClient,
  defineChain,
  encodeAbiParameters,
  encodeFunctionData,
  getAbiItem,
  type Hash,
  type Hex,
  http,
  parseAbi,
  parseEther,
  publicActions,
  walletActions,
} from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { startAnvil } from './anvil.ts'
import { addresses, type CompiledContract, readArtifact, USDC_DOMAIN_SEPARATOR } from './contracts.ts'

/** The chain id of Base Sepolia. Wallets, peers and facilitators then need no extra setting for the devnet. */
export const CHAIN_ID = 84532
export const NETWORK = `eip155:${CHAIN_ID}` as const

/**
 * The first account of anvil, which holds its key. The account pays for mints and for transactions that tests submit.
 */
const BANK = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'
const RECEIPT_TIMEOUT_MS = 60_000
const RPC_TIMEOUT_MS = 60_000
const GAS_GRANT = parseEther('1')

export const usdcAbi = parseAbi([
  'function mint(address to, uint256 amount) returns (bool)',
  'function balanceOf(address account) view returns (uint256)',
  'function transfer(address to, uint256 value) returns (bool)',
  'function version() view returns (string)',
  'function name() view returns (string)',
  'function symbol() view returns (string)',
  'function decimals() view returns (uint8)',
  'function DOMAIN_SEPARATOR() view returns (bytes32)',
  'function authorizationState(address authorizer, bytes32 nonce) view returns (bool)',
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)',
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
  'function receiveWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)',
  'function receiveWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
  'function cancelAuthorization(address authorizer, bytes32 nonce, bytes signature)',
  'function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
  'event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)',
  'event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce)',
  'event Transfer(address indexed from, address indexed to, uint256 value)',
])

/** Events that USDC emits for each payment. */
export const usdcEvents = {
  transfer: getAbiItem({ abi: usdcAbi, name: 'Transfer' }),
  authorizationUsed: getAbiItem({ abi: usdcAbi, name: 'AuthorizationUsed' }),
} as const

/** The EIP-712 domain of USDC signatures on this chain. */
export const usdcDomain = { name: 'USDC', version: '2', chainId: CHAIN_ID, verifyingContract: addresses.usdc } as const

export type DevChainClient = ReturnType<typeof createClient>

/** A local chain with USDC, the ERC-8004 registries, x402's payment channels and Multicall3 where Base Sepolia has them. */
export type DevChain = {
  readonly rpcUrl: string
  readonly pid: number
  readonly exited: Promise<string>
  /** viem's client for everything else that a test needs. */
  readonly client: DevChainClient
  /** Mints USDC, in atomic units, and returns the transaction. */
  mint(to: Hex, amount: bigint): Promise<Hash>
  /** Gives an account ETH for gas. The default is 1 ETH. */
  fundGas(address: Hex, wei?: bigint): Promise<void>
  /** The USDC balance in atomic units. */
  balanceOf(address: Hex): Promise<bigint>
  /** True if the authorization was used or canceled. */
  authorizationState(from: Hex, authorizationNonce: Hex): Promise<boolean>
  /** Cancels an authorization as its payer, which is possible at any time before settlement. */
  cancelAuthorization(payerKey: Hex, authorizationNonce: Hex): Promise<Hash>
  /** Installs a contract with this owner at its own address: a payer that signs by EIP-1271. */
  deploySmartWallet(owner: Hex, at: Hex): Promise<void>
  /**
   * Sends a transaction from the bank's account and waits until it is mined, successful or not. Like all methods above,
   * it needs automine.
   */
  submit(transaction: { to: Hex; data: Hex }): Promise<Hash>
  /** When off, transactions wait in the pool until `mine()`, as on a chain with slow blocks. */
  setAutomine(enabled: boolean): Promise<void>
  mine(blocks?: number): Promise<void>
  stop(): Promise<void>
}

export type DevChainOptions = { port?: number; anvil?: string }

/** @throws AnvilError when anvil cannot be started. */
export async function startChain(options: DevChainOptions = {}): Promise<DevChain> {
  const anvil = await startAnvil({
    chainId: CHAIN_ID,
    ...(options.port === undefined ? {} : { port: options.port }),
    ...(options.anvil === undefined ? {} : { binary: options.anvil }),
  })
  try {
    const client = createClient(anvil.rpcUrl)
    // By default anvil prints every call.
    await client.setLoggingEnabled(false)
    await installContracts(client)
    return { ...anvil, client, ...createActions(client) }
  } catch (error) {
    await anvil.stop()
    throw error
  }
}

/** The chain in viem's format. */
export function describeChain(rpcUrl: string) {
  return defineChain({
    id: CHAIN_ID,
    name: 'Stoa devnet',
    nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
    rpcUrls: { default: { http: [rpcUrl] } },
    contracts: { multicall3: { address: addresses.multicall } },
  })
}

function createClient(rpcUrl: string) {
  return createTestClient({
    mode: 'anvil',
    chain: describeChain(rpcUrl),
    transport: http(rpcUrl, { timeout: RPC_TIMEOUT_MS, retryCount: 0 }),
    pollingInterval: 20,
    cacheTime: 0,
  })
    .extend(publicActions)
    .extend(walletActions)
}

/** @throws Error if the token would refuse signatures that USDC on Base Sepolia accepts. */
async function installContracts(client: DevChainClient): Promise<void> {
  const { contracts } = readArtifact()
  await Promise.all([
    install(client, addresses.usdc, contracts.UsdcLike),
    install(client, addresses.identityRegistry, contracts.IdentityRegistry),
    install(client, addresses.reputationRegistry, contracts.ReputationRegistry, addresses.identityRegistry),
    install(client, addresses.batchSettlement, contracts.BatchSettlement),
    install(client, addresses.erc3009DepositCollector, contracts.Erc3009DepositCollector, addresses.batchSettlement),
    install(client, addresses.multicall, contracts.Multicall),
  ])
  const separator = await client.readContract({
    address: addresses.usdc,
    abi: usdcAbi,
    functionName: 'DOMAIN_SEPARATOR',
  })
  if (separator !== USDC_DOMAIN_SEPARATOR) {
    throw new Error(
      `the USDC of the devnet has the domain separator ${separator}, but USDC on Base Sepolia has ${USDC_DOMAIN_SEPARATOR}`,
    )
  }
}

/**
 * Installs a contract's code at the given address. An `eth_call` that creates a contract returns the code without
 * creating the contract.
 */
async function install(client: DevChainClient, at: Hex, contract: CompiledContract, argument?: Hex): Promise<void> {
  const argumentWord = argument === undefined ? '' : encodeAbiParameters([{ type: 'address' }], [argument]).slice(2)
  const { data: bytecode } = await client.call({ data: `${contract.bytecode}${argumentWord}` })
  if (bytecode === undefined) throw new Error(`the contract for ${at} has no code: run \`node devnet/compile.ts\``)
  await client.setCode({ address: at, bytecode })
}

type Actions = Omit<DevChain, 'rpcUrl' | 'pid' | 'exited' | 'client' | 'stop'>

function createActions(client: DevChainClient): Actions {
  const usdc = { address: addresses.usdc, abi: usdcAbi } as const
  let lastSubmission: Promise<unknown> = Promise.resolve()

  /**
   * Sends one transaction at a time. Anvil assigns the bank's nonces, and two concurrent transactions could get the
   * same nonce.
   */
  function submit(transaction: { to: Hex; data: Hex }): Promise<Hash> {
    const submission = lastSubmission.then(async () => {
      // We set the gas ourselves, so that a transaction that reverts is mined too.
      const hash = await client.sendTransaction({ account: BANK, ...transaction, gas: 1_000_000n })
      await client.waitForTransactionReceipt({ hash, timeout: RECEIPT_TIMEOUT_MS })
      return hash
    })
    lastSubmission = submission.catch(() => {})
    return submission
  }

  return {
    submit,
    mint: async (to, amount) => {
      const data = encodeFunctionData({ abi: usdcAbi, functionName: 'mint', args: [to, amount] })
      return submit({ to: addresses.usdc, data })
    },
    fundGas: (address, wei = GAS_GRANT) => client.setBalance({ address, value: wei }),
    balanceOf: (address) => client.readContract({ ...usdc, functionName: 'balanceOf', args: [address] }),
    authorizationState: (from, nonce) =>
      client.readContract({ ...usdc, functionName: 'authorizationState', args: [from, nonce] }),
    cancelAuthorization: async (payerKey, nonce) => {
      const payer = privateKeyToAccount(payerKey)
      const signature = await payer.signTypedData({
        domain: usdcDomain,
        types: {
          CancelAuthorization: [
            { name: 'authorizer', type: 'address' },
            { name: 'nonce', type: 'bytes32' },
          ],
        },
        primaryType: 'CancelAuthorization',
        message: { authorizer: payer.address, nonce },
      })
      const args = [payer.address, nonce, signature] as const
      return submit({
        to: addresses.usdc,
        data: encodeFunctionData({ abi: usdcAbi, functionName: 'cancelAuthorization', args }),
      })
    },
    deploySmartWallet: (owner, at) => install(client, at, readArtifact().contracts.SmartWallet, owner),
    setAutomine: (enabled) => client.setAutomine(enabled),
    mine: (blocks = 1) => client.mine({ blocks }),
  }
}
