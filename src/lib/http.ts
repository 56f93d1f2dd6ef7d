let patient: Promise<typeof fetch> | undefined

/**
 * A `fetch` that waits for an answer until its signal aborts. The built-in `fetch` gives up after 300 s without headers
 * or body data, but an agent may run for an hour. The library loads with the first request.
 */
export const patientFetch: typeof fetch = async (input, init) => {
  patient ??= loadPatient()
  return (await patient)(input, init)
}

async function loadPatient(): Promise<typeof fetch> {
  const undici = await import('undici')
  const dispatcher = new undici.Agent({ headersTimeout: 0, bodyTimeout: 0 })
  return ((url: string, init: object) => undici.fetch(url, { ...init, dispatcher })) as unknown as typeof fetch
}

/** The text of an answer, `onText` as it arrives; undefined beyond the limit. The server may be hostile. */
export async function boundedText(
  { body }: Pick<Response, 'body'>,
  bytesMax: number,
  onText?: (text: string) => void,
): Promise<string | undefined> {
  const decoder = new TextDecoder()
  let bytes = 0
  let text = ''
  for await (const chunk of body ?? []) {
    bytes += chunk.byteLength
    const piece = decoder.decode(chunk, { stream: true })
    if (piece !== '') onText?.(piece)
    // Leaving the loop cancels the rest of the body.
    if (bytes > bytesMax) return undefined
    text += piece
  }
  return text + decoder.decode()
}
