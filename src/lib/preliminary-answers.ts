/** Servers send one or two: 100 Continue, 103 Early Hints. */
const PRELIMINARY_MAX = 16

/**
 * Options of an undici request whose server may send no more than a few answers of status 1xx before its answer. undici reads
 * any number of them, and each takes time.
 *
 * @param outer ends the request as well
 */
export function fewPreliminaryAnswers(outer: AbortSignal): { signal: AbortSignal; onInfo: () => void } {
  const tooMany = new AbortController()
  let seen = 0
  return {
    signal: AbortSignal.any([outer, tooMany.signal]),
    onInfo() {
      seen++
      if (seen > PRELIMINARY_MAX) tooMany.abort(new Error('the server sends preliminary answers without end'))
    },
  }
}
