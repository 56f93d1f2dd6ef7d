import * as z from 'zod'
import { reasonOf } from '../lib/errors.ts'
import { silentLogger } from '../lib/logger.ts'
import { readWalletKey } from '../payments/wallet-key.ts'
import { type Check, fail, ok, type Patient, skip, warn } from './doctor-check.ts'
import { readBalance } from './wallet.ts'

const RPC_MS_MAX = 4000
/** Payments we sign begin a little in the past (D28); a clock further behind signs what is not yet valid, or no longer. */
const CLOCK_BEHIND_MS_MAX = 5000
const BLOCK_AGE_MS_MAX = 120_000

const rpc: Check = {
  id: 'rpc',
  title: 'Chain RPC',
  async run({ config, parts }, signal) {
    const host = hostOf(config.rpcUrl)
    const expected = Number(config.network.slice('eip155:'.length))
    try {
      const chainId = await (await openChain({ config, parts })).chainId(signal)
      if (chainId === expected) return ok(`${host}, chain ${chainId}`)
      return fail(
        `${host} is of chain ${chainId}, this node’s network is ${config.network}`,
        'correct ETHEREUM_RPC_URL or NODE_NETWORK',
      )
    } catch (error) {
      const fix =
        'name one that can be reached; without it the node trades, but knows no balance and cannot reconcile settlements'
      return fail(`${host} does not answer: ${reasonOf(error)}`, fix)
    }
  },
}

const clock: Check = {
  id: 'clock',
  title: 'Clock',
  async run({ config, parts }, signal) {
    const blockMs = await (await openChain({ config, parts })).blockTimeMs(signal).catch(() => undefined)
    if (blockMs === undefined) return skip('cannot be compared: the chain does not answer')
    const aheadMs = parts.clock.now() - blockMs
    const seconds = Math.abs(Math.round(aheadMs / 1000))
    if (aheadMs < -CLOCK_BEHIND_MS_MAX) {
      return fail(
        `${seconds} s behind the chain: payments are refused`,
        'set the clock, for example: timedatectl set-ntp true',
      )
    }
    if (aheadMs > BLOCK_AGE_MS_MAX) {
      const fix = 'compare it with a time server; an RPC that lags, or a local chain without traffic, shows the same'
      return warn(`${seconds} s ahead of the chain’s newest block`, fix)
    }
    return ok('agrees with the chain')
  },
}

const balance: Check = {
  id: 'balance',
  title: 'Balance',
  async run({ config, secrets, parts, running }, signal) {
    const known = running === undefined ? await ownAddress(config.dataDir, secrets) : undefined
    if (running === undefined && known === undefined) return skip('no wallet yet')
    try {
      const found =
        known === undefined
          ? await running!.node.balance({ signal })
          : await readBalance(known, config, { parts }, signal)
      if (found.balance_atomic !== '0') return ok(`${found.balance} ${found.symbol}`)
      const source =
        config.network === 'eip155:84532'
          ? 'the faucet at https://faucet.circle.com gives test USDC; choose Base Sepolia'
          : 'send it USDC on Base'
      return warn(`0 ${found.symbol}: paid agents cannot be bought`, `fund ${found.address}: ${source}`)
    } catch {
      return skip('unknown: the chain does not answer')
    }
  },
}

const Supported = z.object({
  kinds: z.array(z.looseObject({ x402Version: z.unknown(), scheme: z.unknown(), network: z.unknown() })).max(1000),
})

const facilitator: Check = {
  id: 'facilitator',
  title: 'Facilitator',
  async run({ config, parts, agents }, signal) {
    const url = config.facilitatorUrl
    const choose = 'choose another with FACILITATOR_URL (--facilitator-url)'
    if (url === undefined) {
      const sells = agents.some(({ price }) => price > 0n)
      if (sells)
        return fail('none: what buyers pay is never settled', 'name one with FACILITATOR_URL (--facilitator-url)')
      return skip('none; only selling needs one')
    }
    const host = hostOf(url)
    try {
      const answer = await parts.fetch(`${url.replace(/\/+$/, '')}/supported`, { signal, redirect: 'error' })
      if (!answer.ok) return fail(`${host} answers ${answer.status} to /supported`, choose)
      const { data } = Supported.safeParse(await answer.json())
      if (data === undefined) return fail(`${host} answers, but not as an x402 facilitator does`, choose)
      const fits = data.kinds.some(
        (kind) => kind.x402Version === 2 && kind.scheme === 'exact' && kind.network === config.network,
      )
      if (fits) return ok(`${host} settles exact payments on ${config.network}`)
      return fail(`${host} does not settle exact payments on ${config.network}`, choose)
    } catch (error) {
      return fail(`${host} cannot be reached: ${causeOf(error)}`, `see that it is up, or ${choose}`)
    }
  },
}

/** Checks of the chain and the one who settles on it. */
export const chainChecks: readonly Check[] = [rpc, clock, balance, facilitator]

async function openChain({ config, parts }: Pick<Patient, 'config' | 'parts'>) {
  const { createChain } = await import('../chain/chain.ts')
  const { assets } = await import('../payments/assets.ts')
  const { network, rpcUrl = '' } = config
  const options = { network, asset: assets[network].address, rpcUrl, timeoutMs: RPC_MS_MAX }
  return createChain(options, { logger: silentLogger, fetch: parts.fetch })
}

async function ownAddress(dataDir: string, secrets: Patient['secrets']) {
  const key = await readWalletKey(dataDir, secrets).catch(() => undefined)
  if (key === undefined) return undefined
  const { walletAddress } = await import('../payments/wallet.ts')
  return walletAddress(key)
}

/** Only the host: the rest of an RPC's URL is often a key. */
function hostOf(url: string | undefined): string {
  return (url === undefined ? null : URL.parse(url))?.host ?? 'none'
}

/** `fetch` says only that it failed; its cause says why. */
function causeOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  return (cause as NodeJS.ErrnoException).code ?? reasonOf(cause)
}
