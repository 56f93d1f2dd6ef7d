import type { Stream } from '@libp2p/interface'
import type { Service } from '../lib/lifecycle.ts'
import { within } from '../lib/wait.ts'
import { MARKETPLACE_PROTOCOL } from '../schema/marketplace.ts'
import { X402_PROTOCOL } from '../schema/x402.ts'
import { FramedStream } from './framed-stream.ts'
import { refuseMarketplace, serveMarketplace } from './marketplace.ts'
import { PeerError } from './peer-error.ts'
import type { X402ServerDeps } from './x402/exchange.ts'
import { refuseX402 } from './x402/messages.ts'
import { serveX402 } from './x402/server.ts'

export type HandleStreams = (
  protocol: string,
  handler: (stream: Stream, peerId: string) => void,
  options: { relayed: boolean },
) => Promise<void>

/** Time left after that to record how the aborted runs ended. */
const STOP_ABORT_MS = 700
/** How long a peer may keep its side of a stream open after ours ended. */
const PART_MS = 5_000

/** A paid run continues without its caller, who may return for the result. Only a reset cancels it. */
const X402 = { serve: serveX402, refuse: refuseX402, endsWithStream: false, servesWhileStopping: true }
const MARKETPLACE = {
  ...{ serve: serveMarketplace, refuse: refuseMarketplace },
  ...{ endsWithStream: true, servesWhileStopping: false },
}

/**
 * Answers both peer protocols on inbound streams, within the limits of each peer (D36).
 *
 * @param drainMs how long runs may go on when the node stops
 */
export function createProtocolServer(handle: HandleStreams, deps: X402ServerDeps, drainMs: number): Service {
  const { limits, logger } = deps
  const streams = new Map<Promise<void>, AbortController>()
  const stopped = new AbortController()
  let stopping = false

  function accept(protocol: typeof X402, stream: Stream, peerId: string): void {
    const framed = new FramedStream(stream, { account: (change) => limits.holdBytes(peerId, change) })
    const controller = new AbortController()
    const { signal } = controller
    stream.addEventListener('close', ({ error }) => {
      if (protocol.endsWithStream || isCancellation(error)) controller.abort(new Error('the caller has gone'))
    })
    const release = limits.openStream(peerId)
    const refusal = release === undefined ? tooMany() : refusalOf(protocol, peerId)
    if (refusal !== undefined) framed.discard()
    const answered = refusal
      ? protocol.refuse(framed, refusal, signal)
      : protocol.serve({ stream: framed, peerId, stopping: stopped.signal, isDraining: () => stopping }, deps, signal)
    const served = answered
      .catch((error: unknown) => logger.debug({ err: error, peer_id: peerId }, 'a stream failed'))
      .then(() => part(stream, framed, signal))
      .finally(() => {
        release?.()
        streams.delete(served)
      })
    streams.set(served, controller)
  }

  function refusalOf(protocol: typeof X402, peerId: string): PeerError | undefined {
    if (deps.isBlocked(peerId, deps.didOf(peerId))) {
      return new PeerError('UNKNOWN_RESOURCE', 'the seller does not serve this node: it has blocked it')
    }
    // A process that stops answers, so that its buyers go on to another one. While its runs end, it gives their results.
    return stopping && (stopped.signal.aborted || !protocol.servesWhileStopping) ? stops() : undefined
  }

  /** Resolves when no agent runs, and what was delivered has had its first attempt at settlement. */
  async function idle(): Promise<void> {
    await deps.slots.idle()
    await Promise.all(deps.running.values())
    await deps.settler.idle()
  }

  return {
    name: 'protocols',
    async start() {
      await handle(X402_PROTOCOL, (stream, peerId) => accept(X402, stream, peerId), { relayed: true })
      await handle(MARKETPLACE_PROTOCOL, (stream, peerId) => accept(MARKETPLACE, stream, peerId), { relayed: true })
    },
    async stop() {
      stopping = true
      await within(drainMs, idle())
      for (const controller of [stopped, ...streams.values()]) controller.abort(new Error('the node is stopping'))
      await within(STOP_ABORT_MS, Promise.allSettled(streams.keys()))
    },
  }
}

/** True if the peer reset the stream while the connection lives on. The buyer cancels its request in this way. */
function isCancellation(error: Error | undefined): boolean {
  return error?.name === 'StreamResetError'
}

function stops(): PeerError {
  return new PeerError('OVERLOADED', 'this seller stops: nothing was charged, ask it again later or at another address')
}

function tooMany(): PeerError {
  return new PeerError('OVERLOADED', 'too many streams from this peer; use them again or close some')
}

/** Waits until both sides have ended the stream, because an open one counts. A peer that is late is cut off. */
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
