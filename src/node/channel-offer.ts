import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { type Periodic, periodic } from '../lib/periodic.ts'
import { within } from '../lib/wait.ts'

/** How often the node looks whether channels can be settled. */
const LOOK_MS = 60_000
/** Limit of one look. It asks the RPC and each facilitator. */
const LOOK_MS_MAX = 20_000
/** How long the first listing waits for the first look. Later, the listing is published again. */
const FIRST_MS = 2_000

export type ChannelOfferDeps = {
  logger: Logger
  /** Why channels cannot be settled here. Undefined: they can. @throws ChainError */
  trouble(signal: AbortSignal): Promise<string | undefined>
  /** Publishes the listings again. */
  changed(): Promise<void>
}

/**
 * Says whether this node offers payment channels now. It offers none that it could not claim: where the contract is missing,
 * or neither a facilitator nor its own account would send the transactions. While the chain does not answer, the last answer
 * stands. The node claims what is owed on channels that exist all the same.
 */
export class ChannelOffer implements Service {
  readonly name = 'offer of payment channels'
  readonly #deps: ChannelOfferDeps
  readonly #looks: Periodic
  readonly #onError: (err: unknown) => void
  readonly #stopping = new AbortController()
  #first: Promise<void> | undefined
  /** Ends with the first look, or after `FIRST_MS`: the listings of all agents wait together. */
  #firstOrLate: Promise<unknown> | undefined
  #isOpen = false
  /** What the listings say. Undefined: nothing was listed. */
  #isListed: boolean | undefined
  #trouble: string | undefined

  constructor(deps: ChannelOfferDeps) {
    this.#deps = deps
    this.#onError = (err) => deps.logger.warn({ err }, 'the listings could not be published again')
    this.#looks = periodic(
      { name: this.name, firstMs: LOOK_MS, everyMs: LOOK_MS },
      { work: () => this.#look(), onError: this.#onError },
    )
  }

  /** What the last look that was answered has seen. False before the first. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Whether a listing should offer channels. The first time it waits for the chain, at most two seconds. */
  async listed(): Promise<boolean> {
    if (this.#first === undefined) {
      this.#first = this.#see()
      this.#first.then(() => this.#tell()).catch(this.#onError)
      this.#firstOrLate = within(FIRST_MS, this.#first)
    }
    await this.#firstOrLate
    this.#isListed = this.#isOpen
    return this.#isOpen
  }

  async start(): Promise<void> {
    await this.#looks.start()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#looks.stop()
    await this.#first
  }

  async #look(): Promise<void> {
    if (this.#first === undefined) return
    await this.#see()
    await this.#tell()
  }

  /** Never rejects. */
  async #see(): Promise<void> {
    const { logger, trouble } = this.#deps
    const limit = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(LOOK_MS_MAX)])
    let found: string | undefined
    try {
      found = await trouble(limit)
    } catch (err) {
      logger.debug({ err }, 'could not look whether payment channels can be settled')
      return
    }
    if (this.#stopping.signal.aborted) return
    this.#isOpen = found === undefined
    if (found !== undefined && found !== this.#trouble)
      logger.info({ reason: found }, 'payment channels are not offered')
    this.#trouble = found
  }

  async #tell(): Promise<void> {
    if (this.#stopping.signal.aborted) return
    if (this.#isListed === undefined || this.#isListed === this.#isOpen) return
    this.#isListed = this.#isOpen
    await this.#deps.changed()
  }
}
