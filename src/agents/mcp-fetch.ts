import { guardFetch, ResponseRefusedError } from './guarded-fetch.ts'

/** What one connection may have: two lines for each message of the server, requests, and requests without an answer. */
const LINES_MAX = 20_000
const REQUESTS_MAX = 2_000
const UNANSWERED_MAX = 64

/**
 * A `fetch` for one connection to an MCP server. A client answers each question of its server by a request, and opens a stream
 * that ended again when the server says so: questions or ends by the thousand would hold the event loop for minutes (T32).
 *
 * @param onCut told when the server has passed a limit. The connection is of no use any more
 */
export function mcpFetch(
  fetchIt: typeof fetch,
  outputBytesMax: number,
  onCut: (error: Error) => void = () => {},
): typeof fetch {
  const guarded = guardFetch(fetchIt, outputBytesMax, { linesMax: LINES_MAX, onCut })
  let requests = 0
  let unanswered = 0
  return async (input, init) => {
    if (++requests > REQUESTS_MAX) {
      const error = new ResponseRefusedError(`the server wants more than ${REQUESTS_MAX} requests`)
      onCut(error)
      throw error
    }
    if (unanswered >= UNANSWERED_MAX) throw new Error(`${UNANSWERED_MAX} requests wait for an answer`)
    unanswered++
    try {
      return await guarded(input, init)
    } finally {
      unanswered--
    }
  }
}
