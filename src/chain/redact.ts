const TEXT_MAX = 200
const SECRET_LENGTH_MIN = 6

/**
 * Text from an RPC, fit for logs and answers: no URLs, nothing of this RPC's own path, query or credentials, one short line.
 *
 * Providers put the API key in the URL, and error texts like to repeat it.
 */
export function redact(text: string, url: URL | undefined): string {
  let clean = text.replace(/[a-z][a-z0-9+.-]*:\/\/[^\s"'<>)]+/gi, '[url]')
  for (const secret of url === undefined ? [] : secretsOf(url)) clean = clean.replaceAll(secret, '[key]')
  clean = clean.replace(/\s+/g, ' ').trim()
  return clean.length <= TEXT_MAX ? clean : `${clean.slice(0, TEXT_MAX - 1)}…`
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
