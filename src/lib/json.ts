/** The most JSON that is parsed. `values` counts arrays, objects, texts and commas. */
type JsonLimits = { levels: number; values: number }

/** What a message, a body or an answer of others may have. Its parsing then takes milliseconds, however long it is (T32). */
export const JSON_LIMITS: JsonLimits = { levels: 64, values: 100_000 }
/** For JSON of this machine, and for code that has a thread of its own. */
export const UNLIMITED: JsonLimits = { levels: Number.POSITIVE_INFINITY, values: Number.POSITIVE_INFINITY }

/** A value, or what is wrong with its text. */
export type Json = { ok: true; value: unknown } | { ok: false; reason: string }

/** Most messages are shorter. To parse so short a text takes microseconds, with any content. */
const SHORT_LENGTH = 4_096

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** The value of a JSON text like `readPeerJson`, or undefined if something is wrong with the text. */
export function parseJson(text: string | Uint8Array, limits = JSON_LIMITS): unknown {
  const json = readPeerJson(text, limits)
  return json.ok ? json.value : undefined
}

/**
 * The value of a JSON text, or what is wrong with it: it is not JSON, exceeds the limits, or its bytes are not UTF-8. The limits
 * of a short text are not checked.
 */
export function readPeerJson(text: string | Uint8Array, limits = JSON_LIMITS): Json {
  return readJson(text, text.length <= SHORT_LENGTH ? UNLIMITED : limits)
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

/** The text of UTF-8 bytes. Undefined if the bytes are not UTF-8. */
export function utf8Text(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes)
  } catch {
    return undefined
  }
}

/**
 * Says what exceeds the limits, before anything is parsed: 8 MB of brackets would hold the event loop for seconds. Most of a
 * message is text in quotes, which is skipped and not read.
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

/** Where the text that begins at `start` has its last quote. The length of everything if it has none. */
function endOfText(text: string, start: number): number {
  const end = text.indexOf('"', start + 1)
  if (end === -1) return text.length
  if (text.charCodeAt(end - 1) !== BACKSLASH) return end
  // To search again for each escaped quote would take longer than to read on.
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
