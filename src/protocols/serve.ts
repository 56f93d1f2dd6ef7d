import type { Stream } from '@libp2p/interface'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { within } from '../lib/wait.ts'
import { MARKETPLACE_PROTOCOL } from '../schema/marketplace.ts'
import { X402_PROTOCOL } from '../schema/x402.ts'
import { FramedStream } from './framed-stream.ts'
import { refuseMarketplace } from './marketplace.ts'
import { PeerError } from './peer-error.ts'
import type { PeerLimits } from './peer-limits.ts'
import { refuseX402 } from './x402/messages.ts'

type Serve = (stream: FramedStream, peerId: string, signal: AbortSignal, stopping: AbortSignal) => Promise<void>
type Refuse = (stream: FramedStream, error: PeerError, signal: AbortSignal) => Promise<void>

type ProtocolServerDeps = {
  logger: Logger
  limits: PeerLimits
  handle(
    protocol: string,
    handler: (stream: Stream, peerId: string) => void,
    options: { relayed: boolean },
  ): Promise<void>
  serveX402: Serve
  serveMarketplace: Serve
  /** True for peers that the operator does not serve. */
  isBlocked?(peerId: string): boolean
  /** Resolves when no agent runs and no answer waits for its settlement. */
  idle(): Promise<unknown>
}

/** When the node stops, runs may finish for this long. */
const STOP_GRACE_MS = 2_000
/** Time left after that to record how the aborted runs ended. */
const STOP_ABORT_MS = 700
/** How long a peer may keep its side of a stream open after ours ended. */
const PART_MS = 5_000

/** Answers both peer protocols on inbound streams, within the limits of each peer (D36). */
export function createProtocolServer(deps: ProtocolServerDeps): Service {
  const streams = new Map<Promise<void>, AbortController>()
  const stopped = new AbortController()
  let stopping = false

  function accept(serve: Serve, refuse: Refuse, endsWithStream: boolean) {
    return (stream: Stream, peerId: string): void => {
      if (stopping) {
        stream.abort(new Error('the node is stopping'))
        return
      }
      const framed = new FramedStream(stream, { account: (change) => deps.limits.holdBytes(peerId, change) })
      const controller = new AbortController()
      const { signal } = controller
      stream.addEventListener('close', ({ error }) => {
        if (endsWithStream || isCancellation(error)) controller.abort(new Error('the caller has gone'))
      })
      const release = deps.limits.openStream(peerId)
      const refusal = release === undefined ? tooMany() : deps.isBlocked?.(peerId) === true ? blocked() : undefined
      if (refusal !== undefined) framed.discard()
      const answered = refusal ? refuse(framed, refusal, signal) : serve(framed, peerId, signal, stopped.signal)
      const served = answered
        .catch((error: unknown) => deps.logger.debug({ err: error, peer_id: peerId }, 'a stream ended badly'))
        .then(() => part(stream, framed, signal))
        .finally(() => {
          release?.()
          streams.delete(served)
        })
      streams.set(served, controller)
    }
  }

  return {
    name: 'protocols',
    async start() {
      // A paid run continues without its caller, who may return for the result. Only a reset cancels it.
      await deps.handle(X402_PROTOCOL, accept(deps.serveX402, refuseX402, false), { relayed: true })
      await deps.handle(MARKETPLACE_PROTOCOL, accept(deps.serveMarketplace, refuseMarketplace, true), { relayed: true })
    },
    async stop() {
      stopping = true
      await within(STOP_GRACE_MS, deps.idle())
      for (const controller of [stopped, ...streams.values()]) controller.abort(new Error('the node is stopping'))
      await within(STOP_ABORT_MS, Promise.allSettled(streams.keys()))
    },
  }
}

/** True if the peer reset the stream while the connection lives on. The buyer cancels its request in this way. */
function isCancellation(error: Error | undefined): boolean {
  return error?.name === 'StreamResetError'
}

function tooMany(): PeerError {
  return new PeerError('OVERLOADED', 'too many streams from this peer; use them again or close some')
}

function blocked(): PeerError {
  return new PeerError('UNKNOWN_RESOURCE', 'the seller does not serve this node: it has blocked it')
}

/**
 * Waits until both sides have ended the stream, because an open stream counts and costs. A peer that does not end its
 * side in time is cut off.
 */
async function part(stream: Stream, framed: FramedStream, signal: AbortSignal): Promise<void> {
  framed.discard()
  if (stream.status === 'open' || stream.status === 'closing') {
    const closed = new Promise((resolve) => {
      stream.addEventListener('close', resolve, { once: true })
      signal.addEventListener('abort', resolve, { once: true })
      if (signal.aborted) resolve(undefined)
    })
    await within(PART_MS, closed)
  }
  stream.abort(new Error('the exchange is over'))
}
