const TEXT_MAX = 200
const SECRET_LENGTH_MIN = 6
/** Characters that are looked at: what is left of them is cut to `TEXT_MAX`. */
const LOOKED_AT_MAX = 2_000

/**
 * Text from an RPC, fit for logs and answers: no URLs, nothing of this RPC's own path, query or credentials, one short line.
 *
 * Providers put the API key in the URL, and error texts like to repeat it.
 */
export function redact(text: string, url: URL | undefined): string {
  const secrets = url === undefined ? [] : secretsOf(url)
  // Cut before anything is matched: the text is as long as the RPC likes (T32).
  let clean = cut(text, secrets).replace(/[a-z][a-z0-9+.-]{0,30}:\/\/[^\s"'<>)]+/gi, '[url]')
  for (const secret of secrets) clean = clean.replaceAll(secret, '[key]')
  clean = clean.replace(/\s+/g, ' ').trim()
  return clean.length <= TEXT_MAX ? clean : `${clean.slice(0, TEXT_MAX - 1)}…`
}

/** The beginning of a text, without the part of a secret that the cut may have left at its end. */
function cut(text: string, secrets: readonly string[]): string {
  if (text.length <= LOOKED_AT_MAX) return text
  const head = text.slice(0, LOOKED_AT_MAX)
  for (const secret of secrets) {
    for (let length = Math.min(secret.length, head.length); length >= SECRET_LENGTH_MIN; length--) {
      if (head.endsWith(secret.slice(0, length))) return head.slice(0, -length)
    }
  }
  return head
}

/** Longest first, so that no part of a secret is left because a shorter one was cut out of its middle. */
function secretsOf(url: URL): string[] {
  const query = url.search
    .slice(1)
    .split('&')
    .map((pair) => pair.slice(pair.indexOf('=') + 1))
  const parts = [url.username, url.password, ...url.pathname.split('/'), ...query]
  const decoded = parts.flatMap((part) => [part, decode(part)])
  return [...new Set(decoded)]
    .filter((part) => part.length >= SECRET_LENGTH_MIN)
    .sort((left, right) => right.length - left.length)
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
