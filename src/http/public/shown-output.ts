/** Characters that a client may be behind. Beyond it, it gets no more output but the result, which holds everything. */
const BEHIND_LENGTH_MAX = 256 * 1024

/** What an agent shows while it works, for a client that reads at its own pace. The agent never waits. */
export class ShownOutput {
  #waiting = ''
  #isOver = false
  #wake = () => {}

  readonly push = (text: string): void => {
    if (this.#isOver) return
    this.#waiting += text
    if (this.#waiting.length > BEHIND_LENGTH_MAX) this.end()
    else this.#wake()
  }

  /** Nothing more is shown. */
  end(): void {
    this.#isOver = true
    this.#wake()
  }

  /** The next texts, until the end. */
  async *texts(): AsyncGenerator<string> {
    for (;;) {
      const text = this.#waiting
      this.#waiting = ''
      if (text !== '' && text.length <= BEHIND_LENGTH_MAX) yield text
      else if (this.#isOver) return
      else await new Promise<void>((resolve) => (this.#wake = resolve))
    }
  }
}
