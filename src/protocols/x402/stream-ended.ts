import { FrameError } from '../frame.ts'
import { PeerError } from '../peer-error.ts'

/** The seller sent more output than any result may have. The buyer can still ask for the paid result (T7, T10). */
export class OutputEndless extends Error {
  override name = 'OutputEndless'
  constructor() {
    super('the seller sent more output than a result may hold')
  }
}

/** The seller ended the stream without an answer, or in the middle of it. */
export class StreamEnded extends Error {
  override name = 'StreamEnded'
  constructor(options: ErrorOptions = {}) {
    super('the seller ended the stream without an answer', options)
  }
}

/** An incomplete frame says nothing about the exchange. The buyer can still ask for the answer (T23). */
export function asStreamEnded(error: unknown): never {
  const cause = error instanceof PeerError ? error.cause : undefined
  const isCut = cause instanceof FrameError && (cause.code === 'FRAME_CUT' || cause.code === 'FRAME_SLOW')
  throw isCut ? new StreamEnded({ cause }) : error
}
