/** What a buyer says that it accepts, as it came: `accepted` of a payment of x402 v2. */
export type Accepted = Readonly<Record<string, unknown>>

/** What a payment says of itself. Nothing proves it. */
export type Stated = { resourceUrl?: string | undefined; accepted?: Accepted | undefined }

const OTHER_RESOURCE = 'the payment names another resource than this one'
/** In the words of x402's own servers, by which people find the cause. */
const NO_MATCH = 'No matching payment requirements'
const ADDRESS = /^0x[0-9a-f]{40}$/i

/**
 * Compares what a buyer accepts with what it was asked. What is signed decides about the money. But a buyer that accepts other
 * terms than those of its signature means something else, and x402's own servers sell nothing to it either.
 *
 * Addresses may be written in other letters, and fields that were not asked for may stand beside.
 *
 * @param asked entries of `accepts`
 * @returns why no entry is meant. Undefined: one is
 */
export function mismatch(asked: readonly object[], accepted: Accepted): string | undefined {
  const differences = asked.map((entry) => difference(entry as Accepted, accepted))
  if (differences.includes(undefined)) return undefined
  const meant = asked.findIndex((entry) => (entry as Accepted).scheme === accepted.scheme)
  return `${NO_MATCH}: accepted.${differences[Math.max(0, meant)]} is not what is asked`
}

/** Why a payment is for another resource than that at `url`. */
export function otherResource({ resourceUrl }: Stated, url: string): string | undefined {
  return resourceUrl === undefined || resourceUrl === url ? undefined : OTHER_RESOURCE
}

/** The first field that differs. */
function difference({ extra, ...asked }: Accepted, accepted: Accepted): string | undefined {
  const field = differs(asked, accepted)
  if (field !== undefined || extra === undefined) return field
  const within = differs(extra as Accepted, accepted.extra)
  return within && `extra.${within}`
}

function differs(asked: Accepted, accepted: unknown): string | undefined {
  const given = typeof accepted === 'object' && accepted !== null ? (accepted as Accepted) : {}
  return Object.keys(asked).find((name) => !Object.hasOwn(given, name) || !isSame(asked[name], given[name]))
}

function isSame(asked: unknown, accepted: unknown): boolean {
  if (asked === accepted) return true
  if (typeof asked !== 'string' || typeof accepted !== 'string') return false
  return ADDRESS.test(asked) && asked.toLowerCase() === accepted.toLowerCase()
}
