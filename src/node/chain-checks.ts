import * as z from 'zod'
import type { Config } from '../config/config.ts'
import type { Clock } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import { type Finding, fail, ok, skip, warn } from '../lib/finding.ts'
import { boundedText } from '../lib/http.ts'
import { parseJson } from '../lib/json.ts'
import { silentLogger } from '../lib/logger.ts'

const RPC_MS_MAX = 4000
/**
 * Our payments are valid from slightly before their signature (D28). A clock further behind signs payments that are not
 * valid.
 */
const CLOCK_BEHIND_MS_MAX = 5000
const BLOCK_AGE_MS_MAX = 120_000

/** Input of these checks: the settings of a node and its environment. */
export type Surroundings = {
  config: Pick<Config, 'network' | 'rpcUrl' | 'facilitatorUrl'> & Partial<Pick<Config, 'facilitatorFallbacks'>>
  fetch: typeof fetch
  clock: Clock
  /** True if any agent of this node has a price. */
  sells: boolean
}

export async function checkRpc(around: Surroundings, signal: AbortSignal): Promise<Finding> {
  const { config } = around
  const host = hostOf(config.rpcUrl)
  const expected = Number(config.network.slice('eip155:'.length))
  try {
    const chainId = await (await openChain(around)).chainId(signal)
    if (chainId === expected) return ok(`${host}, chain ${chainId}`)
    return fail(
      `${host} serves chain ${chainId}, but this node is on ${config.network}`,
      'correct ETHEREUM_RPC_URL or NODE_NETWORK',
    )
  } catch (error) {
    const fix =
      'set an RPC that answers; without one the node trades, but cannot read its balance or reconcile settlements'
    return fail(`${host} does not answer: ${reasonOf(error)}`, fix)
  }
}

export async function checkClock(around: Surroundings, signal: AbortSignal): Promise<Finding> {
  const blockMs = await (await openChain(around)).blockTimeMs(signal).catch(() => undefined)
  if (blockMs === undefined) return skip('cannot be compared: the chain does not answer')
  const aheadMs = around.clock.now() - blockMs
  const seconds = Math.abs(Math.round(aheadMs / 1000))
  if (aheadMs < -CLOCK_BEHIND_MS_MAX) {
    return fail(
      `${seconds} s behind the chain: payments are refused`,
      'set the clock, for example: timedatectl set-ntp true',
    )
  }
  if (aheadMs > BLOCK_AGE_MS_MAX) {
    const fix = 'compare the clock with a time server; an RPC that lags or an idle local chain shows the same'
    return warn(`${seconds} s ahead of the chain’s newest block`, fix)
  }
  return ok('agrees with the chain')
}

/** Bytes read of what a facilitator supports. */
const ANSWER_BYTES_MAX = 1024 * 1024

const Supported = z.object({
  kinds: z.array(z.looseObject({ x402Version: z.unknown(), scheme: z.unknown(), network: z.unknown() })).max(1000),
})

/** Checks each facilitator in order. One that works is enough to settle, but broken ones are still reported. */
export async function checkFacilitator(around: Surroundings, signal: AbortSignal): Promise<Finding> {
  const { facilitatorUrl, facilitatorFallbacks = [] } = around.config
  const [first, ...others] = [...(facilitatorUrl === undefined ? [] : [facilitatorUrl]), ...facilitatorFallbacks]
  if (first === undefined) {
    if (around.sells)
      return fail('none: what buyers pay is never settled', 'set one with FACILITATOR_URL (--facilitator-url)')
    return skip('none; only selling needs one')
  }
  if (others.length === 0) return checkOneFacilitator(first, around, signal)
  const findings = await Promise.all([first, ...others].map((url) => checkOneFacilitator(url, around, signal)))
  const said = findings.map(({ text }) => text).join('; ')
  const broken = findings.find(({ state }) => state === 'fail')
  if (broken === undefined) return ok(said)
  const fix = broken.fix ?? 'check that it is running'
  return findings.some(({ state }) => state !== 'fail') ? warn(said, fix) : fail(said, fix)
}

async function checkOneFacilitator(
  url: string,
  { config, fetch }: Surroundings,
  signal: AbortSignal,
): Promise<Finding> {
  const choose = 'choose another with FACILITATOR_URL (--facilitator-url)'
  const host = hostOf(url)
  try {
    const answer = await fetch(`${url.replace(/\/+$/, '')}/supported`, { signal, redirect: 'error' })
    // The request carries none of the node's own headers, so that a check never sends a key.
    if (answer.status === 401 || answer.status === 403) {
      return warn(`${host} requires a key`, 'check that its key is set and correct')
    }
    if (!answer.ok) return fail(`${host} answers ${answer.status} to /supported`, choose)
    const { data } = Supported.safeParse(parseJson((await boundedText(answer, ANSWER_BYTES_MAX)) ?? ''))
    if (data === undefined) return fail(`${host} is not an x402 facilitator: it answered something else`, choose)
    const fits = data.kinds.some(
      (kind) => kind.x402Version === 2 && kind.scheme === 'exact' && kind.network === config.network,
    )
    if (fits) return ok(`${host} settles exact payments on ${config.network}`)
    return fail(`${host} does not settle exact payments on ${config.network}`, choose)
  } catch (error) {
    return fail(`${host} cannot be reached: ${causeOf(error)}`, `check that it is running, or ${choose}`)
  }
}

async function openChain({ config, fetch }: Surroundings) {
  const { createChain } = await import('../chain/chain.ts')
  const { assets } = await import('../payments/assets.ts')
  const { network, rpcUrl = '' } = config
  const options = { network, asset: assets[network].address, rpcUrl, timeoutMs: RPC_MS_MAX }
  return createChain(options, { logger: silentLogger, fetch })
}

/** Returns only the host: the rest of an RPC's URL often contains a key. */
function hostOf(url: string | undefined): string {
  return (url === undefined ? null : URL.parse(url))?.host ?? 'none'
}

/** `fetch` throws a generic error. Its cause holds the reason. */
function causeOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  return (cause as NodeJS.ErrnoException).code ?? reasonOf(cause)
}
