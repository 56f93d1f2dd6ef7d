import { createHash } from 'node:crypto'
import { RequestMalformedError } from '@a2a-js/sdk/errors'
import { BoundedMap } from '../lib/bounded-map.ts'
import { KEY_HOURS } from '../schema/limits.ts'
import type { RunTime } from '../store/run-time.ts'
import { MESSAGE_LIFE_MS, type MessageName, type SentMessageStore } from '../store/sent-messages.ts'
import { StoreError } from '../store/store-error.ts'
import type { TaskIds } from './task-events.ts'

/** Messages known without a query to the store. Beyond it the oldest are dropped. */
const SENT_MAX = 20_000

/** Identifies a message: its owner, its agent, its id, and its content. */
type SentMessage = { agentId: string; owner: string | undefined; messageId: string; asked: unknown }
type KnownMessage = { hash: Buffer; at: number; task: Promise<string | undefined> }

/**
 * `begun` returns false if another process was first: the task must not run then. `again`: the task of the message, once
 * known. `isStored`: an earlier process began it, or it is long ago.
 */
type Delivery =
  | { kind: 'first'; begun(task: TaskIds): Promise<boolean>; over(): void }
  | { kind: 'again'; task: Promise<string | undefined>; isStored: boolean }

/**
 * Messages by id, so that a repeated message makes no second task and no second run (D38). A message is stored before
 * its task runs. It ages by the time that the node has run.
 */
export class SentMessages {
  readonly #sent = new BoundedMap<string, KnownMessage>(SENT_MAX)
  readonly #store: Pick<SentMessageStore, 'find' | 'put' | 'elsewhere'>
  readonly #runTime: Pick<RunTime, 'now'>

  constructor(deps: { messages: Pick<SentMessageStore, 'find' | 'put' | 'elsewhere'>; runTime: Pick<RunTime, 'now'> }) {
    this.#store = deps.messages
    this.#runTime = deps.runTime
  }

  /** `lost`: a stored task that is gone. @throws RequestMalformedError for an id that came with another message */
  async send({ agentId, owner, messageId, asked }: SentMessage, lost?: string): Promise<Delivery> {
    const key = JSON.stringify([owner ?? null, agentId, messageId])
    const name = { tokenId: owner, agentId, messageId }
    const hash = createHash('sha256').update(JSON.stringify(asked)).digest()
    const known = this.#known(key, hash)
    if (known !== undefined) return known
    const stored = await this.#store.find(name)
    // A copy of the message may have begun while the store was read.
    const begunMeanwhile = this.#known(key, hash)
    if (begunMeanwhile !== undefined) return begunMeanwhile
    if (stored !== undefined && stored.taskId !== lost) {
      checkSame(stored.hash, hash)
      return { kind: 'again', task: Promise.resolve(stored.taskId), isStored: true }
    }
    const { promise: task, resolve } = Promise.withResolvers<string | undefined>()
    const sent = { hash, at: this.#runTime.now(), task }
    this.#sent.set(key, sent)
    let isBegun = false
    const forget = () => {
      if (this.#sent.get(key) === sent) this.#sent.delete(key)
    }
    return {
      kind: 'first',
      begun: async ({ taskId, contextId }) => {
        isBegun = true
        let isFirst = false
        try {
          isFirst = await this.#store
            .put(name, { hash, taskId, contextId }, lost)
            .catch((error: unknown) => this.#isStored(name, taskId, error))
          return isFirst
        } finally {
          // The task does not run, so the message may be sent again.
          if (!isFirst) forget()
          resolve(isFirst ? taskId : undefined)
        }
      },
      // The message was refused before it made a task, so it may be sent again.
      over: () => {
        if (isBegun) return
        forget()
        resolve(undefined)
      },
    }
  }

  /** True if a message is stored here whose commit lost its answer. @throws the error of the commit, if it is not */
  async #isStored(name: MessageName, taskId: string, error: unknown): Promise<true> {
    if (!(error instanceof StoreError) || error.code !== 'STORE_IN_DOUBT') throw error
    const stored = await this.#store.find(name)
    // Another process may have got the same message at the same moment.
    const isElsewhere = (await this.#store.elsewhere(name.agentId, taskId)) !== undefined
    if (stored?.taskId !== taskId || isElsewhere) throw error
    return true
  }

  #known(key: string, hash: Uint8Array): Delivery | undefined {
    const here = this.#sent.get(key)
    if (here === undefined || this.#runTime.now() - here.at >= MESSAGE_LIFE_MS) return undefined
    checkSame(here.hash, hash)
    return { kind: 'again', task: here.task, isStored: false }
  }
}

function checkSame(known: Uint8Array, hash: Uint8Array): void {
  if (Buffer.compare(known, hash) === 0) return
  const why = `this messageId was sent with another message in the last ${KEY_HOURS} hours`
  throw new RequestMalformedError(`IDEMPOTENCY_CONFLICT: ${why}. Give each message its own id`)
}
