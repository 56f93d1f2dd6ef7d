/** What may spend: the node does it once for a key, however often it is sent (D38). */
const SPENDING = /^\/(?:orders|orders\/[^/]+\/execute|workflows)$/
/** Requests that were sent and not answered. */
const OPEN_MAX = 100

const open = new Map<string, string>()

/**
 * The key of a request that may spend; undefined for any other. The same request keeps its key until it is answered: whoever
 * presses the button again after the connection was lost buys once.
 */
export function keyFor(path: string, body: object): { text: string; done(): void } | undefined {
  if (!SPENDING.test(path)) return undefined
  const request = `${path}\n${JSON.stringify(body)}`
  const text = open.get(request) ?? newKey()
  open.delete(request)
  open.set(request, text)
  if (open.size > OPEN_MAX) open.delete(open.keys().next().value!)
  return { text, done: () => void open.delete(request) }
}

/** `crypto.randomUUID` is missing where the page came over plain HTTP from another machine. */
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
