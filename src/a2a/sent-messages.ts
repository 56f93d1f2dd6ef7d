import { createHash } from 'node:crypto'
import { RequestMalformedError } from '@a2a-js/sdk/errors'
import type { Clock, UnixMs } from '../lib/clock.ts'

/** A message id names the same request for this long (D38). */
const LIFE_MS = 24 * 60 * 60 * 1000
const SENT_MAX = 20_000

/** A message: whose, to which agent, its id, and all that makes it this request. */
export type SentMessage = { agentId: string; owner: string | undefined; messageId: string; asked: unknown }
type Sent = { hash: string; at: UnixMs; task: Promise<string | undefined> }

/** What a message has become. `first`: nothing yet; `before`: the task it made, once that is known. */
export type Sending =
  | { kind: 'first'; begun(taskId: string): void; over(): void }
  | { kind: 'again'; task: Promise<string | undefined> }

/**
 * Messages by their ids, so that one that is sent again makes no second task and no second run (D38).
 *
 * In memory, as tasks are: what may spend is bound to its key in the ledger beside, and outlives the process.
 */
export class SentMessages {
  readonly #sent = new Map<string, Sent>()
  readonly #clock: Clock

  constructor(deps: { clock: Clock }) {
    this.#clock = deps.clock
  }

  /** @throws RequestMalformedError for an id that was sent with another message */
  send({ agentId, owner, messageId, asked }: SentMessage): Sending {
    const name = JSON.stringify([owner ?? null, agentId, messageId])
    const hash = createHash('sha256').update(JSON.stringify(asked)).digest('base64')
    const now = this.#clock.now()
    const known = this.#sent.get(name)
    if (known !== undefined && now - known.at < LIFE_MS) {
      if (known.hash === hash) return { kind: 'again', task: known.task }
      const why = 'this messageId was sent with another message in the last 24 hours'
      throw new RequestMalformedError(`IDEMPOTENCY_CONFLICT: ${why}: give each message an id of its own`)
    }
    const { promise: task, resolve } = Promise.withResolvers<string | undefined>()
    const sent = { hash, at: now, task }
    this.#sent.delete(name)
    this.#sent.set(name, sent)
    if (this.#sent.size > SENT_MAX) this.#sent.delete(this.#sent.keys().next().value!)
    let isBegun = false
    return {
      kind: 'first',
      begun(taskId) {
        isBegun = true
        resolve(taskId)
      },
      // Refused before there was a task: the same message may be sent again.
      over: () => {
        if (isBegun) return
        if (this.#sent.get(name) === sent) this.#sent.delete(name)
        resolve(undefined)
      },
    }
  }
}
