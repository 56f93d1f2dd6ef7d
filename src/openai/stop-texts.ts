/**
 * Ends a text before the first of some stop texts. `take` gets the text in pieces and returns what may be shown: text
 * that could still be the beginning of a stop text is kept back until it is known.
 */
export class StopTexts {
  readonly #stops: readonly string[]
  #kept = ''
  #isDone = false

  constructor(stops: readonly string[]) {
    this.#stops = stops
  }

  /** True once a stop text was found. Nothing more is shown. */
  get isDone(): boolean {
    return this.#isDone
  }

  take(piece: string): string {
    if (this.#isDone) return ''
    const text = this.#kept + piece
    const found = this.#stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0)
    if (found.length > 0) {
      this.#isDone = true
      this.#kept = ''
      return text.slice(0, Math.min(...found))
    }
    const kept = Math.max(0, ...this.#stops.map((stop) => overlap(text, stop)))
    this.#kept = text.slice(text.length - kept)
    return text.slice(0, text.length - kept)
  }

  /** The rest, when the text has ended. */
  end(): string {
    const rest = this.#kept
    this.#kept = ''
    return rest
  }
}

/** Length of the longest end of `text` with which `stop` begins. It is shorter than `stop`. */
function overlap(text: string, stop: string): number {
  for (let length = Math.min(text.length, stop.length - 1); length > 0; length--) {
    if (text.endsWith(stop.slice(0, length))) return length
  }
  return 0
}
