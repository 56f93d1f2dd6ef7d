/** How much of JSON is parsed. `values`: arrays, objects, texts and commas. */
type JsonLimits = { levels: number; values: number }

/**
 * What a message, a body or an answer of others may have. Its parsing then takes milliseconds, however long it is (T32).
 *
 * @internal Exported for its test.
 */
export const JSON_LIMITS: JsonLimits = { levels: 64, values: 100_000 }
/** For JSON of this machine, and for threads of their own. */
export const UNLIMITED: JsonLimits = { levels: Number.POSITIVE_INFINITY, values: Number.POSITIVE_INFINITY }

/** A value, or what is wrong with its text. */
export type Json = { ok: true; value: unknown } | { ok: false; reason: string }

/** Most messages are shorter. Whatever one holds, to parse it takes microseconds. */
const SHORT_LENGTH = 4_096

const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * The value of a JSON text, or undefined if the text is not JSON, exceeds the limits, or its bytes are not UTF-8. Of a short
 * text the limits are not checked.
 */
export function parseJson(text: string | Uint8Array, limits = JSON_LIMITS): unknown {
  const json = readJson(text, text.length <= SHORT_LENGTH ? UNLIMITED : limits)
  return json.ok ? json.value : undefined
}

/** The value of a JSON text, or what is wrong with it, as words that follow a subject such as "the body". */
export function readJson(text: string | Uint8Array, limits = JSON_LIMITS): Json {
  const decoded = typeof text === 'string' ? text : utf8Text(text)
  if (decoded === undefined) return noJson
  const reason = excessOf(decoded, limits)
  if (reason !== undefined) return { ok: false, reason }
  try {
    return { ok: true, value: JSON.parse(decoded) }
  } catch {
    return noJson
  }
}

const noJson: Json = { ok: false, reason: 'is not JSON in UTF-8' }

/** Undefined for bytes that are not UTF-8. */
export function utf8Text(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes)
  } catch {
    return undefined
  }
}

/**
 * Says what exceeds the limits, before anything is parsed: 8 MB of nothing but brackets would hold the event loop for
 * seconds. Texts, of which most messages consist, are skipped and not read.
 */
export function excessOf(text: string, { levels, values }: JsonLimits = JSON_LIMITS): string | undefined {
  if (values === Number.POSITIVE_INFINITY && levels === values) return undefined
  let depth = 0
  let count = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfText(text, at)
    else if (code === BRACE || code === BRACKET) {
      if (++depth > levels) return `is nested deeper than ${levels} levels`
    } else {
      if (code === BRACE_END || code === BRACKET_END) depth--
      if (code !== COMMA) continue
    }
    if (++count > values) return `has more than ${values} values`
  }
  return undefined
}

/** Where a text ends that begins at a quote. Beyond the end of everything if it does not end. */
function endOfText(text: string, start: number): number {
  const end = text.indexOf('"', start + 1)
  if (end === -1) return text.length
  if (text.charCodeAt(end - 1) !== BACKSLASH) return end
  // One search for each escaped quote would take longer than reading on.
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === BACKSLASH) at++
    else if (code === QUOTE) return at
  }
  return text.length
}

const QUOTE = 34
const COMMA = 44
const BACKSLASH = 92
const BRACKET = 91
const BRACKET_END = 93
const BRACE = 123
const BRACE_END = 125
