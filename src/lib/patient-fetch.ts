let loaded: Promise<typeof fetch> | undefined

/**
 * A `fetch` that waits for an answer as long as its signal lets it.
 *
 * The built-in one gives up on headers, and between two pieces of a body, after 300 s; an agent may run for an hour.
 * Loads its library with the first request.
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
