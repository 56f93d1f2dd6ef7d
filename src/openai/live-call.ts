import { within } from '../lib/wait.ts'
import type { Following } from './serve.ts'

/** A client gets the head of its stream after this time, even if no agent has begun: it would give up on silence. */
const HEAD_AFTER_MS = 10_000

/** What a client sees of a call that runs: who serves it, and the output that it has not read yet. */
export class LiveCall implements Following {
  #agentId: string | undefined
  #isTaken = false
  #attempts = 0
  #orderId: string | undefined
  #text = ''
  #wake = () => {}
  readonly #bound = Promise.withResolvers<void>()

  get agentId(): string | undefined {
    return this.#agentId
  }

  /** True if the order of an earlier request answers. */
  get isTaken(): boolean {
    return this.#isTaken
  }

  get attempts(): number {
    return this.#attempts
  }

  get orderId(): string | undefined {
    return this.#orderId
  }

  onTaken(): void {
    this.#isTaken = true
  }

  onAttempt(agentId: string, attempt: number, orderId: string | undefined): void {
    this.#agentId = agentId
    this.#attempts = attempt
    this.#orderId = orderId
  }

  onBound(): void {
    this.#bound.resolve()
  }

  onOutput(text: string): void {
    this.#text += text
    this.#wake()
  }

  /** Waits until one agent serves the call, the call has ended, or the client has waited long enough. */
  async begun(ended: Promise<unknown>): Promise<void> {
    await within(HEAD_AFTER_MS, Promise.race([this.#bound.promise, ended.catch(() => undefined)]))
  }

  /** Yields the output as it comes, until `ended`. Output that was not read yet is joined. */
  async *output(ended: Promise<unknown>): AsyncGenerator<string> {
    let isEnded = false
    const end = () => {
      isEnded = true
      this.#wake()
    }
    ended.then(end, end)
    for (;;) {
      const text = this.#text
      this.#text = ''
      if (text !== '') yield text
      else if (isEnded) return
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    }
  }
}
