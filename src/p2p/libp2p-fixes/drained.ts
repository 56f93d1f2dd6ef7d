/*
 * Upstream: not reported. Seen in @libp2p/utils 7.4.1.
 * Goes when: `onDrain()` waits each time. `upstream.test.ts` fails then.
 */

import type { Stream } from '@libp2p/interface'

/** Waits for the stream's `drain` event until what was written has left. libp2p's `onDrain()` waits only the first time. */
export function drained(
  stream: Stream,
  isOut: () => boolean,
  { limitMs, late }: { limitMs: number; late: () => Error },
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (finish: () => void) => {
      clearTimeout(timer)
      stream.removeEventListener('drain', more)
      stream.removeEventListener('close', closed)
      signal.removeEventListener('abort', aborted)
      finish()
    }
    // The stream sends more in its own microtask, which it queued before this one.
    const more = () => queueMicrotask(() => isOut() && settle(resolve))
    const closed = () => settle(() => reject(new Error('the stream closed before it took the frame')))
    const aborted = () => settle(() => reject(signal.reason))
    const timer = setTimeout(() => settle(() => reject(late())), limitMs).unref()
    stream.addEventListener('drain', more)
    stream.addEventListener('close', closed)
    signal.addEventListener('abort', aborted)
  })
}
