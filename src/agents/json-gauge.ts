import { JSON_LIMITS } from '../lib/json.ts'

/**
 * Measures an answer of JSON while it arrives, before a library parses it whole (T32): one value, or one value in each line, as in a
 * stream of server-sent events.
 */
export class JsonGauge {
  #depth = 0
  #values = 0
  #isText = false
  #isEscaped = false
  /** Lines that ended outside of a value. */
  lines = 0

  /** @returns what exceeds the limits, as words that follow a subject */
  excessOf(bytes: Uint8Array): string | undefined {
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at]!
      if (byte === LINE_END) this.#endLine()
      else if (this.#isText) this.#readText(byte)
      else if (this.#read(byte)) return this.#excess()
    }
    return undefined
  }

  /** JSON has no line breaks inside a text, so a quote that is left open hides nothing of the next line. */
  #endLine(): void {
    this.#isText = false
    this.#isEscaped = false
    if (this.#depth > 0) return
    this.#values = 0
    this.lines++
  }

  #readText(byte: number): void {
    if (this.#isEscaped) this.#isEscaped = false
    else if (byte === BACKSLASH) this.#isEscaped = true
    else if (byte === QUOTE) this.#isText = false
  }

  /** @returns true beyond the limits */
  #read(byte: number): boolean {
    if (byte === BRACE_END || byte === BRACKET_END) this.#depth = Math.max(0, this.#depth - 1)
    if (byte === QUOTE) this.#isText = true
    else if (byte === BRACE || byte === BRACKET) this.#depth++
    else if (byte !== COMMA) return false
    return ++this.#values > JSON_LIMITS.values || this.#depth > JSON_LIMITS.levels
  }

  #excess(): string {
    if (this.#depth > JSON_LIMITS.levels) return `is nested deeper than ${JSON_LIMITS.levels} levels`
    return `has more than ${JSON_LIMITS.values} values`
  }
}

const LINE_END = 10
const QUOTE = 34
const COMMA = 44
const BRACKET = 91
const BACKSLASH = 92
const BRACKET_END = 93
const BRACE = 123
const BRACE_END = 125
