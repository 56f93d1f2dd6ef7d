import { JsonGauge } from './json-gauge.ts'

/** Allowance for the provider's envelope around a result, and for escapes inside it. */
const RESPONSE_BYTES_EXTRA = 1024 * 1024
const RESPONSE_GROWTH = 6

export class ResponseTooLargeError extends Error {
  override name = 'ResponseTooLargeError'
}

/** An answer whose reading would hold the event loop (T32). Its message goes to the log. */
export class ResponseRefusedError extends Error {
  override name = 'ResponseRefusedError'
}

type GuardOptions = {
  /** Lines of all answers together. Default: no limit. */
  linesMax?: number
  /** Also told of an answer that is cut off, for libraries that keep it to themselves. */
  onCut?: (error: Error) => void
}

/**
 * A `fetch` for requests that carry a key. Does not follow redirects, because headers such as `x-api-key` would go
 * along (T12). Stops reading an answer that is too large to be a result, or whose JSON is too much to parse.
 *
 * Not `boundedText`: the libraries of providers read the body themselves.
 */
export function guardFetch(
  fetchIt: typeof fetch,
  outputBytesMax: number,
  { linesMax = Number.POSITIVE_INFINITY, onCut }: GuardOptions = {},
): typeof fetch {
  const bytesMax = outputBytesMax * RESPONSE_GROWTH + RESPONSE_BYTES_EXTRA
  let lines = 0

  function measured(): (chunk: Uint8Array) => Error | undefined {
    const gauge = new JsonGauge()
    let bytes = 0
    return (chunk) => {
      bytes += chunk.byteLength
      if (bytes > bytesMax) return new ResponseTooLargeError(`more than ${bytesMax} bytes`)
      const before = gauge.lines
      const excess = gauge.excessOf(chunk)
      if (excess !== undefined) return new ResponseRefusedError(`the answer ${excess}`)
      lines += gauge.lines - before
      return lines > linesMax ? new ResponseRefusedError(`the answers have more than ${linesMax} lines`) : undefined
    }
  }

  return async (input, init) => {
    const response = await fetchIt(input, { ...init, redirect: 'manual' })
    if (response.body === null) return response
    const excessOf = measured()
    const bounded = response.body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          const excess = excessOf(chunk)
          if (excess === undefined) return controller.enqueue(chunk)
          onCut?.(excess)
          throw excess
        },
      }),
    )
    const { status, statusText, headers } = response
    return new Response(bounded, { status, statusText, headers })
  }
}
