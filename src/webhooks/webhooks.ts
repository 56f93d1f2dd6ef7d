import { createHash } from 'node:crypto'
import type { NodeFeed } from '../ledger/ledger-feed.ts'
import { type Clock, isoTime, type UnixMs } from '../lib/clock.ts'
import { CodedError, reasonOf } from '../lib/errors.ts'
import { createLane } from '../lib/lane.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import type { Post } from '../lib/post.ts'
import { within } from '../lib/wait.ts'
import { type CreateWebhook, WEBHOOKS_MAX, type Webhook, type WebhookTest } from '../schema/webhook.ts'
import type { Delivery, StoredWebhook, WebhookStore } from '../store/webhooks.ts'
import { followEvents } from './event-queue.ts'
import { signedHeaders } from './webhook-message.ts'

const ATTEMPT_TIMEOUT_MS = 15_000
/** How long a message belongs to the process that sends it: longer than an attempt. After a crash it is sent then. */
const LEASE_MS = 30_000
const STOP_GRACE_MS = 500
/** Pauses between two attempts. Together about a day. */
const BACKOFF_MS = [5_000, 30_000, 120_000, 600_000, 1_800_000, 3_600_000, 3 * 3_600_000, 6 * 3_600_000, 12 * 3_600_000]
const LOOK_AGAIN_MS = 60_000
const ERROR_LENGTH_MAX = 300

export type ConfiguredWebhook = { url: string; events: readonly string[]; secret: string }

type WebhooksDeps = {
  clock: Clock
  logger: Logger
  store: WebhookStore
  feed: NodeFeed
  newId(): string
  /** For URLs given over the API: never connects to this machine's own network (T12). */
  postOut: Post
  /** For URLs from the operator's configuration file. */
  postAnywhere: Post
  configured: readonly ConfiguredWebhook[]
  /** Other processes send messages of the same ledger too. */
  isShared: boolean
  /** Whether this process does what one of them does for all. */
  isKeeper(): Promise<boolean>
}

type Target = StoredWebhook & { source: Webhook['source'] }
type Seen = { delivered: number; dropped: number; lastAt?: UnixMs; lastError?: string | undefined }

/**
 * Sends signed messages about events to other systems. Messages are kept until they are accepted. Queued messages are
 * on disk and sent at least once. Each webhook has its own queue, so a slow one delays no other.
 */
export class Webhooks implements Service {
  readonly name = 'webhooks'
  readonly #deps: WebhooksDeps
  readonly #targets = new Map<string, Target>()
  readonly #seen = new Map<string, Seen>()
  /** What is added while the store is read would otherwise be forgotten again. */
  readonly #inTurn = createLane()
  readonly #timers = new Map<string, NodeJS.Timeout>()
  readonly #working = new Map<string, Promise<void>>()
  /** Webhooks that got a message while their due ones were sent. */
  readonly #again = new Set<string>()
  readonly #stopping = new AbortController()
  readonly #cutting = new AbortController()
  #following: Promise<void> | undefined

  constructor(deps: WebhooksDeps) {
    this.#deps = deps
  }

  async start(): Promise<void> {
    const { store, configured, clock } = this.#deps
    for (const { url, events, secret } of configured) {
      const id = `cfg_${createHash('sha256').update(url).digest('hex').slice(0, 16)}`
      this.#targets.set(id, { id, url, events: [...events], secret, createdAt: clock.now(), source: 'config' })
    }
    const configuredIds = [...this.#targets.keys()]
    for (const webhook of await store.all()) this.#targets.set(webhook.id, { ...webhook, source: 'api' })
    if (this.#targets.size === 0) return
    if (await this.#deps.isKeeper()) await store.keepOnly(configuredIds)
    this.#follow()
    for (const id of this.#targets.keys()) this.#work(id)
  }

  /** Gives messages in flight time to be accepted. Otherwise they would be sent again. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the node is stopping'))
    for (const timer of this.#timers.values()) clearTimeout(timer)
    const ended = Promise.allSettled([this.#following, ...this.#working.values()])
    await within(STOP_GRACE_MS, ended)
    this.#cutting.abort(new Error('the node is stopping'))
    await ended
  }

  /** Another process that shares the ledger has added or removed a webhook. */
  reload(): Promise<void> {
    return this.#inTurn(() => this.#readAnew())
  }

  async #readAnew(): Promise<void> {
    const stored = new Map((await this.#deps.store.all()).map((webhook) => [webhook.id, webhook]))
    for (const [id, { source }] of this.#targets) if (source === 'api' && !stored.has(id)) this.#forget(id)
    for (const [id, webhook] of stored) this.#targets.set(id, { ...webhook, source: 'api' })
    if (this.#targets.size > 0) this.#follow()
    for (const id of this.#targets.keys()) this.#work(id)
  }

  async list(): Promise<Webhook[]> {
    const pending = await this.#deps.store.pending()
    return [...this.#targets.values()].map((target) => this.#view(target, pending.get(target.id)))
  }

  /** @throws CodedError WEBHOOKS_TOO_MANY */
  create(wanted: CreateWebhook): Promise<Webhook> {
    return this.#inTurn(() => this.#add(wanted))
  }

  async #add({ url, events, secret }: CreateWebhook): Promise<Webhook> {
    const { store, clock, newId } = this.#deps
    const webhook = { id: newId(), url, events, secret, createdAt: clock.now() }
    if (!(await store.add(webhook, WEBHOOKS_MAX))) {
      throw new CodedError('WEBHOOKS_TOO_MANY', `there are ${WEBHOOKS_MAX} webhooks: remove one first`)
    }
    const target: Target = { ...webhook, source: 'api' }
    this.#targets.set(target.id, target)
    this.#follow()
    return this.#view(target)
  }

  /** @throws CodedError UNKNOWN_WEBHOOK, WEBHOOK_CONFIGURED */
  remove(id: string): Promise<Webhook> {
    return this.#inTurn(() => this.#remove(id))
  }

  async #remove(id: string): Promise<Webhook> {
    const target = this.#known(id)
    if (target.source === 'config') {
      throw new CodedError('WEBHOOK_CONFIGURED', 'this webhook stands in config.yaml: take it out there')
    }
    const { store } = this.#deps
    const last = this.#view(target, (await store.pending()).get(id))
    await store.remove(id)
    this.#forget(id)
    return last
  }

  #forget(id: string): void {
    this.#targets.delete(id)
    this.#seen.delete(id)
    clearTimeout(this.#timers.get(id))
  }

  #follow(): void {
    const { signal } = this.#stopping
    this.#following ??= followEvents({
      ...this.#deps,
      signal,
      targets: () => [...this.#targets.values()],
      queued: (id, dropped) => {
        this.#of(id).dropped += dropped
        this.#work(id)
      },
    })
  }

  /** Sends a message now and returns the outcome. @throws CodedError UNKNOWN_WEBHOOK */
  async test(id: string): Promise<WebhookTest> {
    const target = this.#known(id)
    const { clock, newId } = this.#deps
    const started = performance.now()
    const body = JSON.stringify({ type: 'test', timestamp: isoTime(clock.now()), data: { webhook_id: id } })
    const outcome = await this.#send(target, { id: newId(), body })
    return { ...outcome, duration_ms: Math.round(performance.now() - started) }
  }

  /** Sends the due messages of a webhook one after the other. Then schedules the next turn. */
  #work(id: string): void {
    if (this.#stopping.signal.aborted) return
    if (this.#working.has(id)) {
      this.#again.add(id)
      return
    }
    const work = this.#sendDue(id)
      .catch((error: unknown) => {
        this.#deps.logger.error({ err: error, webhook_id: id }, 'messages of a webhook could not be looked after')
        return LOOK_AGAIN_MS
      })
      .then((waitMs) => {
        this.#working.delete(id)
        // A message came after the last look at the store.
        if (this.#again.delete(id)) this.#work(id)
        else this.#later(id, waitMs)
      })
    this.#working.set(id, work)
  }

  #later(id: string, waitMs: number | undefined): void {
    clearTimeout(this.#timers.get(id))
    if (waitMs === undefined || this.#stopping.signal.aborted || !this.#targets.has(id)) return
    this.#timers.set(id, setTimeout(() => this.#work(id), waitMs).unref())
  }

  /** @returns the time until the next message is due, which may be now; undefined if none waits */
  async #sendDue(id: string): Promise<number | undefined> {
    const { store, clock } = this.#deps
    for (;;) {
      const target = this.#targets.get(id)
      if (target === undefined || this.#stopping.signal.aborted) return undefined
      const now = clock.now()
      const delivery = await store.take(id, { now, until: now + LEASE_MS })
      if (delivery === undefined) break
      await this.#deliver(target, delivery)
    }
    const dueInMs = await store.dueInMs(id, clock.now())
    // Another process may leave messages here when it ends.
    if (dueInMs === undefined) return this.#deps.isShared ? LOOK_AGAIN_MS : undefined
    return Math.min(dueInMs, LOOK_AGAIN_MS)
  }

  async #deliver(target: Target, delivery: Delivery): Promise<void> {
    const { store, clock, logger } = this.#deps
    const { no, id, body, attempts } = delivery
    const { delivered, error } = await this.#send(target, { id, body })
    // An attempt that the stop interrupted does not count.
    if (this.#cutting.signal.aborted && !delivered) return store.giveBack(delivery, clock.now())
    if (delivered) {
      this.#of(target.id).delivered += 1
      return store.done(no)
    }
    const waitMs = BACKOFF_MS[attempts]
    if (waitMs !== undefined) return store.retry(delivery, { now: clock.now(), waitMs })
    this.#of(target.id).dropped += 1
    logger.warn({ webhook_id: target.id, reason: error }, 'a webhook did not take a message for a day; it is given up')
    await store.done(no)
  }

  async #send(target: Target, message: { id: string; body: string }): Promise<Omit<WebhookTest, 'duration_ms'>> {
    const { clock, postOut, postAnywhere } = this.#deps
    const post = target.source === 'config' ? postAnywhere : postOut
    const signal = AbortSignal.any([this.#cutting.signal, AbortSignal.timeout(ATTEMPT_TIMEOUT_MS)])
    const headers = signedHeaders({ ...message, secret: target.secret, now: clock.now() })
    const seen = this.#of(target.id)
    seen.lastAt = clock.now()
    try {
      const status = await post(target.url, { headers, body: message.body, signal })
      const delivered = status >= 200 && status < 300
      seen.lastError = delivered ? undefined : `it answered ${status}`
      return { delivered, status, ...(seen.lastError !== undefined && { error: seen.lastError }) }
    } catch (error) {
      seen.lastError = reasonOf(error).slice(0, ERROR_LENGTH_MAX)
      return { delivered: false, error: seen.lastError }
    }
  }

  #of(id: string): Seen {
    const seen = this.#seen.get(id) ?? { delivered: 0, dropped: 0 }
    this.#seen.set(id, seen)
    return seen
  }

  /** The secret is never shown. */
  #view({ id, url, events, source, createdAt }: Target, pending = 0): Webhook {
    const { delivered, dropped, lastAt, lastError } = this.#of(id)
    return {
      id,
      url,
      events: [...events],
      source,
      created_at: isoTime(createdAt),
      pending,
      delivered,
      dropped,
      ...(lastAt !== undefined && { last_attempt_at: isoTime(lastAt) }),
      ...(lastError !== undefined && { last_error: lastError }),
    }
  }

  #known(id: string): Target {
    const target = this.#targets.get(id)
    if (target !== undefined) return target
    throw new CodedError('UNKNOWN_WEBHOOK', `no webhook ${id} is known here: see GET /webhooks or stoa webhook list`)
  }
}
