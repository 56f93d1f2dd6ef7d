/** Time for a seller to answer with its price. It can be short, because nothing runs before payment. */
export const FIRST_ANSWER_MS = 30_000
/**
 * Time for a seller that shows output before it asks for payment. This happens when the task was already paid for
 * (D39).
 */
export const SHOWN_WORK_MS = 15 * 60_000

/** Undefined means no limit: a free agent may take as long as it needs. */
export type AnswerLimits = { firstAnswerMs?: number | undefined; shownWorkMs?: number | undefined }

/**
 * Limits the wait for the first answer, until `clear` is called. Output alone is not an answer, but it extends the
 * limit once, to the time of a run.
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

/** The seller took the request and did not answer. Either nothing was signed yet, or the payment is in doubt. */
export class SellerSilent extends Error {
  override name = 'SellerSilent'
  constructor(limitMs: number) {
    super(`the seller did not answer within ${limitMs / 1000} s`)
  }
}
