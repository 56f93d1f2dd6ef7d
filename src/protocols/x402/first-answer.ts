/** A seller names its price within this: nothing runs before it is paid. */
export const FIRST_ANSWER_MS = 30_000
/** A seller that shows work before it asks for payment, as of a task that was paid for before (D39), answers within this. */
export const SHOWN_WORK_MS = 15 * 60_000

/** Undefined: a free agent may take as long as it needs. */
export type AnswerLimits = { firstAnswerMs?: number | undefined; shownWorkMs?: number | undefined }

/**
 * Ends a wait for the first answer, until `clear` says that it has come. Output alone is no answer: it gives the seller the
 * time of a run, once.
 */
export function firstAnswerWithin({ firstAnswerMs, shownWorkMs = firstAnswerMs }: AnswerLimits, signal: AbortSignal) {
  if (firstAnswerMs === undefined) return { signal, begun: () => {}, clear: () => {}, failed: rethrow }
  const silent = new AbortController()
  const limit = (ms: number) => setTimeout(() => silent.abort(new SellerSilent(ms)), ms)
  let timer = limit(firstAnswerMs)
  let isBegun = false
  const begun = () => {
    if (isBegun) return
    isBegun = true
    clearTimeout(timer)
    timer = limit(shownWorkMs ?? firstAnswerMs)
  }
  const failed = (error: unknown): never => {
    throw silent.signal.aborted && !signal.aborted ? silent.signal.reason : error
  }
  return { signal: AbortSignal.any([signal, silent.signal]), begun, clear: () => clearTimeout(timer), failed }
}

function rethrow(error: unknown): never {
  throw error
}

/** The seller took the request and has not answered it. Nothing is signed yet, or it is in doubt. */
export class SellerSilent extends Error {
  override name = 'SellerSilent'
  constructor(limitMs: number) {
    super(`the seller did not answer within ${limitMs / 1000} s`)
  }
}
