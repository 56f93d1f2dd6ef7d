/** Undefined means no limit: a free agent may take as long as it needs. */
export type AnswerLimits = { firstAnswerMs?: number | undefined; shownWorkMs?: number | undefined }

/** Time for a seller to answer with its price. It can be short, because nothing runs before payment. */
export const FIRST_ANSWER_MS = 30_000
/** Time for a seller that shows output before it asks for payment: the task was already paid for (D39). */
export const SHOWN_WORK_MS = 15 * 60_000

/** The seller took the request and did not answer. Either nothing was signed yet, or the payment is in doubt. */
export class SellerSilent extends Error {
  override name = 'SellerSilent'
  constructor(limitMs: number) {
    super(`the seller did not answer within ${limitMs / 1000} s`)
  }
}

type FirstAnswer = {
  signal: AbortSignal
  /** Call it with the first output. */
  begun(): void
  /** Ends the limit. */
  clear(): void
  /** Throws the reason of the limit in place of what the limit has caused. */
  failed: ((error: unknown) => never) | undefined
}

/** Limits the wait for the first answer, until `clear`. Output alone extends the limit once, to the time of a run. */
export function firstAnswerWithin(
  { firstAnswerMs, shownWorkMs = firstAnswerMs }: AnswerLimits,
  signal: AbortSignal,
): FirstAnswer {
  if (firstAnswerMs === undefined) return { signal, begun: () => {}, clear: () => {}, failed: undefined }
  const silent = new AbortController()
  const limit = (ms: number) => setTimeout(() => silent.abort(new SellerSilent(ms)), ms)
  let timer = limit(firstAnswerMs)
  let begun = () => {
    begun = () => {}
    clearTimeout(timer)
    timer = limit(shownWorkMs ?? firstAnswerMs)
  }
  const failed = (error: unknown): never => {
    throw silent.signal.aborted && !signal.aborted ? silent.signal.reason : error
  }
  // Not `AbortSignal.any`: it takes longer than the rest of a request.
  const leave = () => silent.abort(signal.reason)
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave, { once: true })
  const clear = () => {
    clearTimeout(timer)
    signal.removeEventListener('abort', leave)
  }
  return { signal: silent.signal, begun: () => begun(), clear, failed }
}
