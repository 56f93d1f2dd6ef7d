import { GatheredBytes } from './gathered-bytes.ts'

let patient: Promise<typeof fetch> | undefined

/**
 * A `fetch` that waits for an answer until its signal aborts. The built-in `fetch` gives up after 300 s without headers
 * or body data, but an agent may run for an hour. The library loads with the first request.
 *
 * Does not dial the address where a cloud gives machines their keys, under any name (T12).
 */
export const patientFetch: typeof fetch = async (input, init) => {
  patient ??= loadPatient()
  return (await patient)(input, init)
}

async function loadPatient(): Promise<typeof fetch> {
  const [undici, { checkHost, lookupOutside }] = await Promise.all([import('undici'), import('./machine-address.ts')])
  const dispatcher = new undici.Agent({ headersTimeout: 0, bodyTimeout: 0, connect: { lookup: lookupOutside } })
  const patientFetch = async (input: string | URL | Request, init: object) => {
    checkHost(new URL(input instanceof Request ? input.url : input).hostname)
    return undici.fetch(input as string, { ...init, dispatcher })
  }
  return patientFetch as unknown as typeof fetch
}

/** The text of an answer, `onText` as it arrives; undefined beyond the limit. The server may be hostile. */
export async function boundedText(
  { body }: Pick<Response, 'body'>,
  bytesMax: number,
  onText?: (text: string) => void,
): Promise<string | undefined> {
  const decoder = new TextDecoder()
  const read = new GatheredBytes()
  for await (const chunk of body ?? []) {
    const piece = onText === undefined ? '' : decoder.decode(chunk, { stream: true })
    if (piece !== '') onText!(piece)
    // Leaving the loop cancels the rest of the body.
    if (read.length + chunk.byteLength > bytesMax) return undefined
    read.add(chunk)
  }
  return new TextDecoder().decode(read.bytes())
}
