import type { Stream } from '@libp2p/interface'
import { CodedError } from '../lib/errors.ts'
import { MarketError } from '../listings/market-error.ts'
import { FrameError } from '../protocols/frame.ts'
import type { FramedStream } from '../protocols/framed-stream.ts'
import { callMarketplace } from '../protocols/marketplace.ts'
import type { OpenStream, StreamPeer } from '../protocols/streams.ts'
import type { ReceivedResponse } from '../protocols/x402/answers.ts'
import { SellerSilent } from '../protocols/x402/first-answer.ts'
import { MARKETPLACE_PROTOCOL } from '../schema/marketplace.ts'
import { X402_PROTOCOL } from '../schema/x402.ts'
import type { OwnCall } from '../selling/own-runs.ts'
import { Deadline } from './deadline.ts'
import { atAnyProcess } from './processes-asked.ts'
import { exchange, formOf, type PurchaseDeps } from './purchase.ts'
import type { PurchaseResult } from './received.ts'
import { readResponse } from './response.ts'
import { onStream, type StreamLease } from './stream-lease.ts'

/** Time limit assumed for listings that state none, such as listings of other implementations. */
const UNKNOWN_RUN_SECONDS = 600
/** Time in the seller's queue. A payment allows the same time for settlement (D28). */
const QUEUE_SECONDS = 120

export type FreeCallDeps = Pick<PurchaseDeps, 'streams' | 'callerDid'> & {
  openStream: OpenStream
  /** Time a free agent may take. Default: the time limit of its listing plus queue time. */
  unpaidMs?: number
}
type FreeAgent = {
  seller: StreamPeer
  resource: string
  protocols: readonly string[]
  timeoutSeconds: number | undefined
  /** True if a caller watches the agent's output. */
  isShown: boolean
}

/**
 * Runs a free agent of another node. Ends the wait after the time for one run and its queue, so that a silent seller
 * does not hold the caller (T7).
 *
 * @throws SellerSilent; PeerError if the seller answers with an error; MarketError; CodedError of the connection
 */
export async function callFreeAgent(agent: FreeAgent, call: OwnCall, deps: FreeCallDeps): Promise<PurchaseResult> {
  const { timeoutSeconds = UNKNOWN_RUN_SECONDS } = agent
  const { unpaidMs = (timeoutSeconds + QUEUE_SECONDS) * 1000 } = deps
  using deadline = new Deadline(call.signal)
  deadline.limit(unpaidMs, () => new SellerSilent(unpaidMs))
  return await overEither(agent, { ...call, signal: deadline.signal }, deps)
}

export function unpaid(output: string): PurchaseResult {
  return { output, outputBytes: undefined, notes: [], reservation: undefined, txHash: undefined }
}

async function overEither({ seller, resource, protocols, isShown }: FreeAgent, call: OwnCall, deps: FreeCallDeps) {
  const paidProtocol = protocols.includes(X402_PROTOCOL)
  const freeProtocol = protocols.includes(MARKETPLACE_PROTOCOL)
  if (paidProtocol && (isShown || !freeProtocol)) return askFree(seller, resource, call, deps)
  return callFree(seller, resource, call, deps).then(unpaid, (error: unknown) => {
    // Nothing has run. The listing says that the seller also speaks the paid protocol, so use that.
    if (paidProtocol && isUnsupported(error)) return askFree(seller, resource, call, deps)
    throw error
  })
}

function isUnsupported(error: unknown): boolean {
  return error instanceof CodedError && error.code === 'PROTOCOL_UNSUPPORTED'
}

/** Uses the protocol that can show output while the agent works. */
async function askFree(
  seller: StreamPeer,
  resource: string,
  { input: task, correlationId, signal, onOutput }: OwnCall,
  { streams, callerDid }: FreeCallDeps,
): Promise<PurchaseResult> {
  const call = { correlationId, resource, task, callerDid, form: formOf(resource), ...(onOutput && { onOutput }) }
  const sign = async () => {
    throw new MarketError(
      'LISTING_MISMATCH',
      'the seller asks to be paid for what it lists as free: nothing was signed',
    )
  }
  const response = await atAnyProcess<FramedStream, ReceivedResponse>(({ instead, mayRefer }, use) => {
    const ask = (lease: StreamLease) => {
      use(lease.stream)
      return exchange(lease, { ...call, mayRefer }, { sign }, signal)
    }
    return onStream({ seller, streams, fresh: true, instead }, ask, signal)
  })
  return { ...readResponse(response), reservation: undefined }
}

async function callFree(seller: StreamPeer, agentId: string, call: OwnCall, deps: FreeCallDeps): Promise<string> {
  return atAnyProcess<Stream, string>(async ({ instead, mayRefer }, use) => {
    const stream = await deps.openStream(seller, MARKETPLACE_PROTOCOL, call.signal, instead && { instead })
    use(stream)
    return callOver(stream, { ...call, agentId, mayRefer })
  })
}

type FreeAsk = OwnCall & { agentId: string; mayRefer: boolean }

async function callOver(stream: Stream, call: FreeAsk): Promise<string> {
  try {
    const output = await callMarketplace(stream, call, call.signal)
    void stream.close().catch(() => {})
    return output
  } catch (error) {
    stream.abort(error instanceof Error ? error : new Error('the call failed'))
    if (!(error instanceof FrameError)) throw error
    throw new MarketError('INPUT_TOO_LARGE', 'the task is too long for one message once it is written as JSON', {
      cause: error,
    })
  }
}
