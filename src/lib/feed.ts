import { CodedError } from './errors.ts'

/** An event. `read` returns its current data, or undefined if the subject no longer exists. It may ask the ledger. */
export type FeedEvent<Topics, Topic extends keyof Topics = keyof Topics> = {
  [T in Topic]: { readonly id: string; readonly type: T; readonly origin: Origin; read(): Read<Topics[T]> }
}[Topic]
/** Which process has published an event: this one, or another one that shares the ledger. */
type Origin = 'here' | 'elsewhere'
/** Data that is there, or is read from the ledger. */
type Read<T> = T | undefined | Promise<T | undefined>
/** Events before this one were missed. The subscriber must load everything again. */
export type FeedReset = { readonly id: string; readonly type: 'reset' }

type Subscription<Topics> = AsyncIterableIterator<FeedEvent<Topics> | FeedReset, undefined>
type SubscribeOptions<Topics> = {
  /** Default: all types. */
  types?: readonly (keyof Topics)[] | undefined
  /** The id of the last event that the subscriber saw. */
  after?: string | undefined
  signal?: AbortSignal | undefined
  /** A subscription of the node itself. It does not count against the maximum. */
  own?: boolean | undefined
  /** Only events of this process: those of others are theirs to act on. */
  hereOnly?: boolean | undefined
}

/** An event as it is kept: without data and without a function of its own, because a busy node makes thousands a second. */
class Entry<Topics> {
  readonly no: number
  readonly key: string
  readonly type: keyof Topics
  readonly origin: Origin
  readonly #life: string
  readonly #read: (key: string) => Read<Topics[keyof Topics]>

  constructor(
    { life, no }: { life: string; no: number },
    of: { type: keyof Topics; key: string; origin: Origin },
    read: (key: string) => Read<Topics[keyof Topics]>,
  ) {
    this.no = no
    this.key = of.key
    this.type = of.type
    this.origin = of.origin
    this.#life = life
    this.#read = read
  }

  get id(): string {
    return idOf(this.#life, this.no)
  }

  read(): Read<Topics[keyof Topics]> {
    return this.#read(this.key)
  }
}

const idOf = (life: string, no: number) => `${life}-${no}`
const asEvent = <Topics>(entry: Entry<Topics>) => entry as unknown as FeedEvent<Topics>
type Subscriber<Topics> = {
  wants(event: { type: keyof Topics; origin: Origin }): boolean
  types: ReadonlySet<keyof Topics> | undefined
  isOwn: boolean
  hereOnly: boolean
  queue: (FeedEvent<Topics> | FeedReset)[]
  ended: boolean
  wake(): void
}

/**
 * Events of the node, for live subscribers. Publishing is cheap: queues hold no data, which is read when a subscriber
 * takes the event. A subscriber that falls behind gets a reset and is removed.
 */
export class Feed<Topics extends object> {
  /** Identifies this process's feed. An earlier process counted its own events. */
  readonly #life: string
  readonly #historyMax: number
  readonly #queueMax: number
  readonly #subscribersMax: number
  /** A ring: the place of an event is its number, modulo the length. */
  readonly #history: Entry<Topics>[] = []
  readonly #subscribers = new Set<Subscriber<Topics>>()
  #last = 0
  /** Events of other processes before this number were missed. */
  #missedUntil = 0
  #closed = false

  constructor(options: { life: string; historyMax?: number; queueMax?: number; subscribersMax?: number }) {
    this.#life = options.life
    this.#historyMax = options.historyMax ?? 1_000
    this.#queueMax = options.queueMax ?? 256
    this.#subscribersMax = options.subscribersMax ?? 64
  }

  get last(): string {
    return this.#idOf(this.#last)
  }

  /** Returns true if a subscriber follows events of this type. */
  isWatched(type: keyof Topics): boolean {
    return [...this.#subscribers].some(({ types }) => types?.has(type) ?? true)
  }

  /**
   * @param key the subject. Of several events about one subject, a late subscriber gets the last one.
   * @param read reads the data of the subject
   */
  publish<T extends keyof Topics>(
    type: T,
    key: string,
    read: (key: string) => Read<Topics[T]>,
    origin: Origin = 'here',
  ): void {
    if (this.#closed) return
    const no = ++this.#last
    const entry = new Entry<Topics>({ life: this.#life, no }, { type, key, origin }, read)
    this.#history[no % this.#historyMax] = entry
    for (const subscriber of this.#subscribers) {
      if (!subscriber.wants(entry)) continue
      if (subscriber.queue.length < this.#queueMax) {
        subscriber.queue.push(asEvent(entry))
        subscriber.wake()
      } else {
        subscriber.queue = [{ id: entry.id, type: 'reset' }]
        this.#end(subscriber)
      }
    }
  }

  /**
   * Tells every subscriber to load everything again, because events of other processes were missed. Skips subscribers that
   * follow only this process: they have missed none.
   */
  reset(): void {
    if (this.#closed) return
    const id = this.#idOf(++this.#last)
    this.#missedUntil = this.#last
    for (const subscriber of this.#subscribers) {
      if (subscriber.hereOnly) continue
      subscriber.queue = [{ id, type: 'reset' }]
      this.#end(subscriber)
    }
  }

  /** Follows events from after `after`, or after a reset if that is too old. @throws CodedError STREAMS_TOO_MANY */
  subscribe(options: SubscribeOptions<Topics> = {}): Subscription<Topics> {
    const { after, signal, own: isOwn = false, hereOnly = false } = options
    const others = [...this.#subscribers].filter((subscriber) => !subscriber.isOwn).length
    if (!isOwn && others >= this.#subscribersMax) {
      throw new CodedError('STREAMS_TOO_MANY', `${this.#subscribersMax} streams of events are open: close one first`)
    }
    const types = options.types === undefined ? undefined : new Set(options.types)
    const wants: Subscriber<Topics>['wants'] = ({ type, origin }) =>
      types?.has(type) !== false && (!hereOnly || origin === 'here')
    const queue = after === undefined ? [] : this.#since(after, { wants, hereOnly })
    const subscriber: Subscriber<Topics> = {
      ...{ wants, types, isOwn, hereOnly, queue },
      ended: this.#closed,
      wake: () => {},
    }
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

  /** Ends every subscription. Later events are not published. */
  close(): void {
    this.#closed = true
    for (const subscriber of this.#subscribers) this.#end(subscriber)
  }

  #end(subscriber: Subscriber<Topics>): void {
    this.#subscribers.delete(subscriber)
    subscriber.ended = true
    subscriber.wake()
  }

  #since(
    after: string,
    { wants, hereOnly }: Pick<Subscriber<Topics>, 'wants' | 'hereOnly'>,
  ): (FeedEvent<Topics> | FeedReset)[] {
    const seen = /^([0-9a-z]+)-([0-9]{1,15})$/.exec(after)
    const no = seen?.[1] === this.#life ? Number(seen[2]) : -1
    const oldest = Math.max(0, this.#last - this.#historyMax)
    const isMissed = !hereOnly && no < this.#missedUntil
    if (no < oldest || no > this.#last || isMissed) return [{ id: this.last, type: 'reset' }]
    const latest = new Map<string, Entry<Topics>>()
    for (let next = no + 1; next <= this.#last; next++) {
      const entry = this.#history[next % this.#historyMax]
      // A reset has a number, and no entry.
      if (entry?.no !== next || !wants(entry)) continue
      const name = `${String(entry.type)} ${entry.key}`
      latest.delete(name)
      latest.set(name, entry)
    }
    return [...latest.values()].map(asEvent)
  }

  #idOf(no: number): string {
    return idOf(this.#life, no)
  }
}
