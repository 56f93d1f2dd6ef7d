/** What a provider wraps around a result, and the escapes inside it. */
const RESPONSE_BYTES_EXTRA = 1024 * 1024
const RESPONSE_GROWTH = 6

/** A provider's answer is larger than any result that would be accepted. */
export class ResponseTooLargeError extends Error {
  override name = 'ResponseTooLargeError'
}

/**
 * A `fetch` for requests that carry a key: a redirect is an answer like any other and is not followed, since
 * `x-api-key` and the like would travel along (T12), and it stops reading an answer that could not be a result any more.
 */
export function guardFetch(fetchIt: typeof fetch, outputBytesMax: number): typeof fetch {
  const bytesMax = outputBytesMax * RESPONSE_GROWTH + RESPONSE_BYTES_EXTRA
  return async (input, init) => {
    const response = await fetchIt(input, { ...init, redirect: 'manual' })
    if (response.body === null) return response
    let bytes = 0
    const bounded = response.body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          bytes += chunk.byteLength
          if (bytes > bytesMax) throw new ResponseTooLargeError(`more than ${bytesMax} bytes`)
          controller.enqueue(chunk)
        },
      }),
    )
    const { status, statusText, headers } = response
    return new Response(bounded, { status, statusText, headers })
  }
}
