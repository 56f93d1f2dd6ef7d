let loaded: Promise<typeof fetch> | undefined

/**
 * A `fetch` that waits for an answer until its signal aborts.
 *
 * The built-in `fetch` gives up after 300 s without headers or body data, but an agent may run for an hour. The library
 * loads with the first request.
 */
export const patientFetch: typeof fetch = async (input, init) => {
  loaded ??= load()
  return (await loaded)(input, init)
}

async function load(): Promise<typeof fetch> {
  const undici = await import('undici')
  const dispatcher = new undici.Agent({ headersTimeout: 0, bodyTimeout: 0 })
  const patient = (url: string, init: object) => undici.fetch(url, { ...init, dispatcher })
  return patient as unknown as typeof fetch
}
