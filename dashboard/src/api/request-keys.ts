/** Requests that may spend money. The node runs each key once, however often the request arrives (D38). */
const SPENDING = /^\/(?:orders|orders\/[^/]+\/execute|workflows)$/
/** Unanswered requests whose keys are kept. */
const OPEN_MAX = 100

const open = new Map<string, string>()

/**
 * The key of a request that may spend, or undefined for other requests. A request keeps its key until the node answers
 * it. A user who clicks again after a lost connection buys once.
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

/** `crypto.randomUUID` is missing when the page came over plain HTTP from another machine. */
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
