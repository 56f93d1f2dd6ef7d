import { parseQuantity } from '../../chain/answers.ts'
import {
  batchSettlementAddress,
  type ChannelReader,
  type ChannelState,
  type DepositAuthorization,
} from '../../chain/batch-settlement.ts'
import type { Chain } from '../../chain/chain.ts'
import { RpcRefusal } from '../../chain/rpc.ts'
import { encodeAuthorizationState, readWord } from '../../chain/usdc.ts'
import { type Clock, type Moment, momentOf } from '../../lib/clock.ts'
import { reasonOf } from '../../lib/errors.ts'
import { backoffMs, doubledMs } from '../../lib/retry.ts'
import { pause } from '../../lib/wait.ts'
import type { ChannelConfig, ChannelPayment, SignedVoucher } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'
import { type Asset, sameAddress } from '../assets.ts'
import { recoverSigner } from '../authorization.ts'
import { channelId, depositDigest, depositNonce } from '../channel-digests.ts'
import { addressOfPublicKey } from '../secp256k1.ts'
import { checkVoucher } from '../voucher.ts'
import type { ChannelRelay } from './channel-relay.ts'
import { type ChannelStep, dataOf } from './channel-steps.ts'
import { type SellerTerms, troubleForSeller } from './terms.ts'
import type { UnpaidDeposits } from './unpaid-deposits.ts'

/** Facilitators refuse an authorization that ends sooner. */
const WINDOW_LEFT_SECONDS_MIN = 10n
/** Deposits that are sent at the same time. Each takes requests to the RPC, for a peer that may be a stranger. */
const UNDER_WAY_MAX = 64
const ATTEMPTS_MAX = 3
const ATTEMPT_WAITS = { firstMs: 1_000, mostMs: 5_000 }
/** How long the chain may take to bury a deposit that it shows. */
const BURIED_MS = 60_000
const LOOKS = { firstMs: 100, mostMs: 2_000 }

/**
 * `landed`: the channel on the chain, at the depth at which this seller believes it. `at`: when that reading began. `txHash`: as
 * somebody named it. `refused`: the deposit cannot happen. `pending`: it may still happen, and the same deposit may be asked for
 * again.
 */
type DepositOutcome =
  | { kind: 'landed'; onChain: ChannelState; at: Moment; txHash: Hex | undefined }
  | { kind: 'refused'; reason: string }
  | { kind: 'pending'; reason: string }

type DepositRequest = {
  config: ChannelConfig
  voucher: SignedVoucher
  deposit: NonNullable<ChannelPayment['deposit']>
  /** Called when the chain would take the deposit, or has it, or when another request checks it: this one asks nothing more. */
  onProved?: (() => void) | undefined
}

type DepositsDeps = {
  asset: Asset
  clock: Clock
  chain: Pick<Chain, 'request' | 'blockTimeMs' | 'authorizationUse'>
  reader: Pick<ChannelReader, 'channels'>
  relay: Pick<ChannelRelay, 'send'>
  terms: SellerTerms
  depositMin: bigint
  /** Why this seller does not send a deposit whose payer is proved. Undefined: it does. */
  unpaid?: Pick<UnpaidDeposits, 'refusal'> | undefined
  /** Blocks above the one that this seller believes. */
  depth: number
  waits?: { attempts?: typeof ATTEMPT_WAITS; buriedMs?: number } | undefined
}

type AskedDeposit = DepositRequest & { id: Hex; nonce: Hex; authorization: DepositAuthorization }
type Look = { onChain: ChannelState; isUsed: boolean }

/**
 * Sends buyers' deposits to the chain. Nothing is stored: a stranger costs this node no more than some requests.
 */
export interface ChannelDeposits {
  /** Asked twice at the same time, it is sent once. Never rejects. */
  deposit(request: DepositRequest): Promise<DepositOutcome>
  stop(): void
}

export function createChannelDeposits(deps: DepositsDeps): ChannelDeposits {
  const underWay = new Map<string, Promise<DepositOutcome>>()
  const stopping = new AbortController()

  async function run(deposit: AskedDeposit): Promise<DepositOutcome> {
    try {
      const trouble = await troubleOf(deposit, deps, stopping.signal)
      if (trouble !== undefined) return { kind: 'refused', reason: trouble }
      return await land(deposit, deps, stopping.signal)
    } catch (error) {
      return { kind: 'pending', reason: reasonOf(error) }
    }
  }

  return {
    deposit(request) {
      const id = channelId(request.config, deps.asset.chainId)
      const { validAfter, validBefore, salt, signature } = request.deposit.authorization
      const authorization = { validAfter, validBefore, salt: salt as Hex, signature: signature as Hex }
      const nonce = depositNonce({ channelId: id, salt: authorization.salt })
      const known = underWay.get(nonce)
      if (known !== undefined) {
        request.onProved?.()
        return known
      }
      if (underWay.size >= UNDER_WAY_MAX) {
        const reason = `too many deposits are under way (limit ${UNDER_WAY_MAX}): send it again`
        return Promise.resolve({ kind: 'pending', reason })
      }
      const running = run({ ...request, id, nonce, authorization }).finally(() => underWay.delete(nonce))
      underWay.set(nonce, running)
      return running
    },
    stop: () => stopping.abort(new Error('the node is stopping')),
  }
}

/** What speaks against a deposit before anything is sent. The cheap checks come first. */
async function troubleOf(deposit: AskedDeposit, deps: DepositsDeps, signal: AbortSignal): Promise<string | undefined> {
  const { config, voucher, authorization } = deposit
  const { terms, depositMin, asset } = deps
  const trouble = troubleForSeller(config, terms)
  if (trouble !== undefined) return trouble
  const { amount } = deposit.deposit
  if (amount < depositMin) return `the deposit is ${amount}, and must be at least ${depositMin}`
  const verdict = checkVoucher(config, voucher, asset.chainId)
  if (!verdict.ok) return verdict.reason
  // The contract compares with the time of its block. The newest block may be old, and our clock may be wrong.
  const blockTimeMs = await deps.chain.blockTimeMs(signal)
  const latest = BigInt(Math.floor(Math.max(blockTimeMs, deps.clock.now()) / 1000))
  const now = BigInt(Math.floor(blockTimeMs / 1000))
  if (authorization.validAfter >= latest) return 'the authorization of the deposit is not valid yet'
  const isOver = authorization.validBefore < now + WINDOW_LEFT_SECONDS_MIN
  // It may have been used in time.
  if (isOver && !(await look(deposit, deps, { depth: 0, signal })).isUsed) {
    return 'the authorization of the deposit has ended, and was not used: sign a new one'
  }
  return undefined
}

async function land(deposit: AskedDeposit, deps: DepositsDeps, signal: AbortSignal): Promise<DepositOutcome> {
  const { config, voucher, authorization } = deposit
  const { amount } = deposit.deposit
  const step: ChannelStep = { type: 'deposit', config, voucher, deposit: { amount, authorization } }
  const isUsed = async (each: AbortSignal) => (await look(deposit, deps, { depth: 0, signal: each })).isUsed
  let txHash: Hex | undefined
  for (let attempt = 1; !(await isUsed(signal)); attempt++) {
    const { refusal, isUntimely } = await simulate(step, deps, signal)
    // Somebody else may have sent it since the look.
    if (refusal !== undefined && !(await isUsed(signal))) {
      return { kind: 'refused', reason: `the chain refuses the deposit: ${refusal}` }
    }
    // USDC compares the time before the signature.
    if (isUntimely && !isSignedByPayer(deposit, deps)) return { kind: 'pending', reason: UNTIMELY_TEXT }
    const { id, nonce } = deposit
    const asked = { id, nonce, payer: config.payer }
    const unpaid = refusal === undefined ? await deps.unpaid?.refusal(asked) : undefined
    if (unpaid !== undefined) return { kind: 'refused', reason: unpaid }
    deposit.onProved?.()
    const failure = await deps.relay.send(step, isUsed, signal).then((hash) => {
      txHash = hash
    }, reasonOf)
    if (failure === undefined) break
    signal.throwIfAborted()
    if (attempt >= ATTEMPTS_MAX) return { kind: 'pending', reason: failure }
    await pause(backoffMs(attempt, deps.waits?.attempts ?? ATTEMPT_WAITS), signal)
  }
  deposit.onProved?.()
  return buried({ ...deposit, txHash }, deps, signal)
}

/** Waits until the chain shows the deposit at the depth at which this seller believes. */
async function buried(
  deposit: AskedDeposit & { txHash: Hex | undefined },
  deps: DepositsDeps,
  signal: AbortSignal,
): Promise<DepositOutcome> {
  const { chain, asset, depth, waits } = deps
  const end = performance.now() + (waits?.buriedMs ?? BURIED_MS)
  for (let looks = 1; ; looks++) {
    const at = momentOf(deps.clock)
    const { onChain, isUsed } = await look(deposit, deps, { depth, signal })
    if (isUsed) {
      // The payer can cancel an authorization. It is used up then, too.
      const use = await chain.authorizationUse(asset.address, deposit.config.payer as Hex, deposit.nonce, signal)
      if (use.state === 'canceled') return { kind: 'refused', reason: 'the payer has canceled the deposit' }
      return { kind: 'landed', onChain, at, txHash: deposit.txHash }
    }
    const waitMs = doubledMs(looks, LOOKS)
    if (performance.now() + waitMs > end) {
      return { kind: 'pending', reason: `the chain shows the deposit, but not ${depth} blocks ago yet` }
    }
    await pause(waitMs, signal)
    signal.throwIfAborted()
  }
}

/** Whether the authorization is used, and the channel, both at one block. */
async function look(
  { id, nonce, config }: AskedDeposit,
  { chain, reader, asset }: DepositsDeps,
  { depth, signal }: { depth: number; signal: AbortSignal },
): Promise<Look> {
  const newest = parseQuantity(await chain.request('eth_blockNumber', [], signal))
  const block = BigInt(Math.max(newest - depth, 0))
  const call = { to: asset.address, data: encodeAuthorizationState(config.payer as Hex, nonce) }
  const [used, [onChain]] = await Promise.all([
    chain.request('eth_call', [call, `0x${block.toString(16)}`], signal).then(readWord),
    reader.channels([id], signal, block),
  ])
  return { onChain: onChain!, isUsed: used !== 0n }
}

/** USDC's wording. The newest block may be older than the authorization, and the next one will not be. */
const UNTIMELY = /not yet valid/i
const UNTIMELY_TEXT = 'the newest block is older than the authorization of the deposit: send it again'

/** `refusal`: the reason for which the contract would refuse. `isUntimely`: it cannot tell yet, and has checked no signature. */
async function simulate(
  step: ChannelStep,
  { chain }: Pick<DepositsDeps, 'chain'>,
  signal: AbortSignal,
): Promise<{ refusal?: string; isUntimely: boolean }> {
  try {
    await chain.request('eth_call', [{ to: batchSettlementAddress, data: dataOf(step) }, 'latest'], signal)
    return { isUntimely: false }
  } catch (error) {
    if (!(error instanceof RpcRefusal && error.isRevert)) throw error
    if (UNTIMELY.test(error.message)) return { isUntimely: true }
    return { refusal: error.message.replace(/^.*\): /, ''), isUntimely: false }
  }
}

function isSignedByPayer({ id, config, deposit, authorization }: AskedDeposit, { asset }: Pick<DepositsDeps, 'asset'>) {
  const payer = config.payer as Hex
  const digest = depositDigest({ channelId: id, payer, amount: deposit.amount, ...authorization }, asset)
  const recovered = recoverSigner(digest, authorization.signature)
  return recovered.ok && sameAddress(addressOfPublicKey(recovered.publicKey), payer)
}
