/** `npm run devnet`: runs the base of a local market until Ctrl-C. Nodes can then use the chain and the facilitator. */
import { parseArgs } from 'node:util'
import { PrivateKeyText } from '../src/config/values.ts'
import { reasonOf } from '../src/lib/errors.ts'
import type { Hex } from '../src/schema/primitives.ts'
import type { Devnet } from './devnet.ts'

const HELP = `A local chain (Base Sepolia's id) with USDC and ERC-8004 registries, an x402 facilitator, and two funded wallets.

Usage: npm run devnet -- [options]

  --port <n>              port of the RPC of the chain (default: any free port)
  --facilitator-port <n>  port of the facilitator (default: any free port)
  --anvil <path>          anvil binary, if npm has none for this machine
  --json                  print one line of JSON instead of shell lines
  --help                  print this help

If SELLER_PRIVATE_KEY and BUYER_PRIVATE_KEY are set, their wallets get the money.
Everything listens on 127.0.0.1. Ctrl-C stops the devnet. All its data and money are then gone.
`

/**
 * Time between blocks without payments, in ms, as on Base. The chain's time is the time of its latest block. A node
 * releases an unsettled authorization only when that time is past the payment window.
 */
const BLOCK_EVERY_MS = 2_000

type Flags = { port: number; facilitatorPort: number; anvil: string | undefined; json: boolean }

async function main(argv: readonly string[]): Promise<number> {
  let flags: Flags | 'help'
  try {
    flags = parseFlags(argv)
  } catch (error) {
    process.stderr.write(`${reasonOf(error)} (npm run devnet -- --help)\n`)
    return 2
  }
  if (flags === 'help') {
    process.stdout.write(HELP)
    return 0
  }
  const interrupted = new Promise<undefined>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => resolve(undefined))
  })
  try {
    const { startDevnet } = await import('./devnet.ts')
    const { port: rpcPort, facilitatorPort, anvil } = flags
    const keys = { ...keyFrom('sellerKey', 'SELLER_PRIVATE_KEY'), ...keyFrom('buyerKey', 'BUYER_PRIVATE_KEY') }
    const devnet = await startDevnet({ rpcPort, facilitatorPort, ...keys, ...(anvil === undefined ? {} : { anvil }) })
    process.stdout.write(flags.json ? `${JSON.stringify(describe(devnet))}\n` : instructions(devnet))
    const blocks = setInterval(() => void devnet.chain.mine().catch(() => {}), BLOCK_EVERY_MS)
    const ended = await Promise.race([interrupted, devnet.chain.exited])
    clearInterval(blocks)
    await devnet.stop()
    if (ended === undefined) return 0
    process.stderr.write(`the chain stopped: ${ended}\n`)
    return 1
  } catch (error) {
    process.stderr.write(`${reasonOf(error)}\n`)
    return 1
  }
}

/** Reads a wallet's key from the environment, so that nodes in containers know their keys before the devnet is up. */
function keyFrom(option: 'sellerKey' | 'buyerKey', variable: string): { sellerKey?: Hex; buyerKey?: Hex } {
  const text = process.env[variable]
  if (text === undefined || text === '') return {}
  const parsed = PrivateKeyText.safeParse(text)
  if (!parsed.success) throw new Error(`${variable} is not a private key: expected 64 hex digits, with or without 0x`)
  return { [option]: parsed.data }
}

/** @throws Error that names the flag. */
function parseFlags(argv: readonly string[]): Flags | 'help' {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      port: { type: 'string' },
      'facilitator-port': { type: 'string' },
      anvil: { type: 'string' },
      json: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return 'help'
  return {
    port: parsePort('--port', values.port),
    facilitatorPort: parsePort('--facilitator-port', values['facilitator-port']),
    anvil: values.anvil,
    json: values.json ?? false,
  }
}

function parsePort(flag: string, text = '0'): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
  if (!(port <= 65_535)) throw new Error(`${flag} must be a port from 0 to 65535, not ${JSON.stringify(text)}`)
  return port
}

/** The values for programs: the same as in the shell lines. */
function describe({ chain, rpcUrl, facilitatorUrl, wallets }: Devnet): object {
  return {
    network: 'eip155:84532',
    rpc_url: rpcUrl,
    facilitator_url: facilitatorUrl,
    chain_pid: chain.pid,
    seller: { address: wallets.seller.address, private_key: wallets.seller.privateKey },
    buyer: { address: wallets.buyer.address, private_key: wallets.buyer.privateKey },
  }
}

function instructions({ rpcUrl, facilitatorUrl, wallets }: Devnet): string {
  const { seller, buyer } = wallets
  return `# The devnet is running. In each terminal that runs a node:
export NODE_NETWORK=eip155:84532
export ETHEREUM_RPC_URL=${rpcUrl}
export FACILITATOR_URL=${facilitatorUrl}

# Terminal of the seller (${seller.address})
export SELLER_PRIVATE_KEY=${seller.privateKey}
npx stoa start --data-dir /tmp/stoa-seller --name echo --description "Repeats the task" --price 0.01 --model builtin/echo

# Terminal of the buyer (${buyer.address})
export BUYER_PRIVATE_KEY=${buyer.privateKey}
npx stoa start --data-dir /tmp/stoa-buyer --port 4002 --api-port 8425

# A third terminal: find the agent with the node of the buyer, and buy from the agent
npx stoa agent discover --data-dir /tmp/stoa-buyer
npx stoa agent execute --data-dir /tmp/stoa-buyer --agent-id <id> --task "hello"

# These keys and this money exist only on the devnet. Ctrl-C stops the devnet.
`
}

process.exitCode = await main(process.argv.slice(2))
