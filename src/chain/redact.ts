const TEXT_MAX = 200
const SECRET_LENGTH_MIN = 6
/** Characters of a text that are processed. The result is cut to `TEXT_MAX`. */
const LOOKED_AT_MAX = 2_000

/**
 * Makes text from an RPC fit for logs and answers: one short line without URLs or parts of the RPC's path, query or
 * credentials. Providers put the API key into the URL, and their error texts often repeat it.
 */
export function redact(text: string, url: URL | undefined): string {
  const secrets = url === undefined ? [] : secretsOf(url)
  // Cut before matching, because the RPC chooses the length of the text (T32).
  let clean = cut(text, secrets).replace(/[a-z][a-z0-9+.-]{0,30}:\/\/[^\s"'<>)]+/gi, '[url]')
  for (const secret of secrets) clean = clean.replaceAll(secret, '[key]')
  clean = clean.replace(/\s+/g, ' ').trim()
  return clean.length <= TEXT_MAX ? clean : `${clean.slice(0, TEXT_MAX - 1)}…`
}

/** The beginning of a text, without a part of a secret that the cut left at its end. */
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

/** Longest first: replacing a shorter secret first could leave parts of a longer one. */
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
