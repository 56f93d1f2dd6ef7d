import { CodedError } from './errors.ts'

/** One thing that has happened. `read` gives its data as they are when asked; undefined where it is no more. */
export type FeedEvent<Topics, Topic extends keyof Topics = keyof Topics> = {
  [T in Topic]: { readonly id: string; readonly type: T; read(): Topics[T] | undefined }
}[Topic]
/** What came before this was missed: whoever follows must look at everything again. */
export type FeedReset = { readonly id: string; readonly type: 'reset' }

export type Subscription<Topics> = AsyncIterableIterator<FeedEvent<Topics> | FeedReset, undefined>
export type SubscribeOptions<Topics> = {
  /** All, unless they are named. */
  types?: readonly (keyof Topics)[] | undefined
  /** The id of the last event that was seen. */
  after?: string | undefined
  signal?: AbortSignal | undefined
  /** Of the node itself: has its place, however many others follow. */
  own?: boolean | undefined
}

type Entry<Topics> = FeedEvent<Topics> & { readonly no: number; readonly key: string }
type Subscriber<Topics> = {
  types: ReadonlySet<keyof Topics> | undefined
  isOwn: boolean
  queue: (FeedEvent<Topics> | FeedReset)[]
  ended: boolean
  wake(): void
}

/**
 * What happens in the node, for whoever follows it while it happens.
 *
 * Publishing costs next to nothing: data are read when somebody takes them, so a queue holds none. Whoever does not keep up
 * is told so, by a reset, and let go.
 */
export class Feed<Topics extends object> {
  /** A feed of an earlier life of the process counted its own events. */
  readonly #life: string
  readonly #historyMax: number
  readonly #queueMax: number
  readonly #subscribersMax: number
  readonly #history = new Map<number, Entry<Topics>>()
  readonly #subscribers = new Set<Subscriber<Topics>>()
  #last = 0
  #closed = false

  constructor(options: { life: string; historyMax?: number; queueMax?: number; subscribersMax?: number }) {
    this.#life = options.life
    this.#historyMax = options.historyMax ?? 1_000
    this.#queueMax = options.queueMax ?? 256
    this.#subscribersMax = options.subscribersMax ?? 64
  }

  /** The id of the latest event. */
  get last(): string {
    return this.#idOf(this.#last)
  }

  /** Whether somebody follows events of this type. */
  isWatched(type: keyof Topics): boolean {
    return [...this.#subscribers].some(({ types }) => types?.has(type) ?? true)
  }

  /** @param key what it happened to: of several events of one thing a late follower is shown the last */
  publish<T extends keyof Topics>(type: T, key: string, read: () => Topics[T] | undefined): void {
    if (this.#closed) return
    const no = ++this.#last
    const entry = { no, key, id: this.#idOf(no), type, read } as unknown as Entry<Topics>
    this.#history.set(no, entry)
    this.#history.delete(no - this.#historyMax)
    for (const subscriber of this.#subscribers) {
      if (subscriber.types?.has(type) === false) continue
      if (subscriber.queue.length < this.#queueMax) {
        subscriber.queue.push(entry)
        subscriber.wake()
      } else {
        subscriber.queue = [{ id: entry.id, type: 'reset' }]
        this.#end(subscriber)
      }
    }
  }

  /**
   * Follows from now on, or from after the event that was seen last; a reset comes first where that is too long ago.
   *
   * @throws CodedError STREAMS_TOO_MANY
   */
  subscribe(options: SubscribeOptions<Topics> = {}): Subscription<Topics> {
    const { after, signal, own: isOwn = false } = options
    const others = [...this.#subscribers].filter((subscriber) => !subscriber.isOwn).length
    if (!isOwn && others >= this.#subscribersMax) {
      throw new CodedError('STREAMS_TOO_MANY', `${this.#subscribersMax} streams of events are open: close one first`)
    }
    const types = options.types === undefined ? undefined : new Set(options.types)
    const queue = after === undefined ? [] : this.#since(after, types)
    const subscriber: Subscriber<Topics> = { types, isOwn, queue, ended: this.#closed, wake: () => {} }
    const leave = () => this.#end(subscriber)
    if (!this.#closed && signal?.aborted !== true) this.#subscribers.add(subscriber)
    else subscriber.ended = true
    signal?.addEventListener('abort', leave, { once: true })
    return {
      [Symbol.asyncIterator]() {
        return this
      },
      async next() {
        for (;;) {
          const value = subscriber.queue.shift()
          if (value !== undefined) return { value, done: false }
          if (subscriber.ended) {
            signal?.removeEventListener('abort', leave)
            return { value: undefined, done: true }
          }
          await new Promise<void>((resolve) => {
            subscriber.wake = resolve
          })
        }
      },
      async return() {
        subscriber.queue = []
        leave()
        signal?.removeEventListener('abort', leave)
        return { value: undefined, done: true }
      },
    }
  }

  /** Ends every subscription. Nothing is published any more. */
  close(): void {
    this.#closed = true
    for (const subscriber of this.#subscribers) this.#end(subscriber)
  }

  #end(subscriber: Subscriber<Topics>): void {
    this.#subscribers.delete(subscriber)
    subscriber.ended = true
    subscriber.wake()
  }

  #since(after: string, types: ReadonlySet<keyof Topics> | undefined): (FeedEvent<Topics> | FeedReset)[] {
    const seen = /^([0-9a-z]+)-([0-9]{1,15})$/.exec(after)
    const no = seen?.[1] === this.#life ? Number(seen[2]) : -1
    const oldest = this.#last - this.#history.size
    if (no < oldest || no > this.#last) return [{ id: this.last, type: 'reset' }]
    const latest = new Map<string, Entry<Topics>>()
    for (const entry of this.#history.values()) {
      if (entry.no <= no || types?.has(entry.type) === false) continue
      const name = `${String(entry.type)} ${entry.key}`
      latest.delete(name)
      latest.set(name, entry)
    }
    return [...latest.values()]
  }

  #idOf(no: number): string {
    return `${this.#life}-${no}`
  }
}
