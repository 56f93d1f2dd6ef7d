/** Allowance for the provider's envelope around a result, and for escapes inside it. */
const RESPONSE_BYTES_EXTRA = 1024 * 1024
const RESPONSE_GROWTH = 6

export class ResponseTooLargeError extends Error {
  override name = 'ResponseTooLargeError'
}

/**
 * A `fetch` for requests that carry a key. Does not follow redirects, because headers such as `x-api-key` would go
 * along (T12). Stops reading an answer that is too large to be a result.
 *
 * Not `boundedText`: the libraries of providers read the body themselves.
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
