import type { X402Message } from '../../schema/x402.ts'
import type { Exchange } from './exchange.ts'
import { type AnyX402Message, VERSION, writeMessage } from './messages.ts'

/** Characters in one frame. */
const FRAME_LENGTH_MAX = 32 * 1024
/** Characters a peer may be behind. Beyond it the next it gets is the response, which contains everything. */
const BEHIND_LENGTH_MAX = 256 * 1024
/** Single words that arrive within this time are sent together. */
const FLUSH_MS = 20

/**
 * True if the peer asked to see output while the agent works, in `x402.output` frames before the response. This is an
 * extension: only `stream: true` enables it, and only the response counts. The agent never waits for the peer.
 */
export function wantsOutput({ type, message }: AnyX402Message): boolean {
  if (type === 'x402.request') return message.method === 'execute' && message.stream === true
  return type === 'x402.paid_request' && message.stream === true
}

/**
 * Adds output to an exchange, until the end of the block. A peer that has seen part of what it pays for can no longer
 * cancel its request, or it would get work for nothing (T6): the run stops only when it is done or when the node stops.
 */
export function withOutput(exchange: Exchange, { isPaid }: { isPaid: boolean }): { exchange: Exchange } & Disposable {
  const { stream, correlationId, signal, stopping } = exchange
  const run = new AbortController()
  let waiting = ''
  let charged: bigint | undefined
  let isAsking = false
  let timer: NodeJS.Timeout | undefined
  let isWriting = false
  let hasShown = false
  let isOver = false

  const callerGone = () => {
    if (!hasShown || !isPaid) run.abort(signal.reason)
  }
  const nodeStops = () => run.abort(stopping.reason)
  signal.addEventListener('abort', callerGone, { once: true })
  stopping.addEventListener('abort', nodeStops, { once: true })
  if (signal.aborted) callerGone()

  async function write(): Promise<void> {
    timer = undefined
    isWriting = true
    try {
      while ((waiting !== '' || isAsking) && !isOver) {
        isAsking = false
        const text = waiting.slice(0, cut(waiting))
        waiting = waiting.slice(text.length)
        const message: X402Message<'x402.output'> = { version: VERSION, correlation_id: correlationId, text, charged }
        hasShown ||= text !== ''
        await writeMessage(stream, 'x402.output', message, signal)
      }
    } catch {
      // The peer has left or accepts nothing, so it gets no more output.
      isOver = true
    } finally {
      isWriting = false
    }
  }

  return {
    exchange: {
      ...exchange,
      signal: run.signal,
      onOutput(text, cost) {
        if (isOver) return
        charged = cost ?? charged
        // Without text it asks for a higher ceiling.
        isAsking ||= text === '' && cost !== undefined
        waiting += text
        if (waiting.length > BEHIND_LENGTH_MAX) isOver = true
        else if (!isWriting) timer ??= setTimeout(() => void write(), FLUSH_MS).unref()
      },
    },
    [Symbol.dispose]() {
      isOver = true
      clearTimeout(timer)
      signal.removeEventListener('abort', callerGone)
      stopping.removeEventListener('abort', nodeStops)
    },
  }
}

/** Never cuts between the two halves of a surrogate pair. */
function cut(text: string): number {
  if (text.length <= FRAME_LENGTH_MAX) return text.length
  const last = text.charCodeAt(FRAME_LENGTH_MAX - 1)
  return last >= 0xd800 && last <= 0xdbff ? FRAME_LENGTH_MAX - 1 : FRAME_LENGTH_MAX
}
