import type { ChannelReader, ChannelState } from '../../chain/batch-settlement.ts'
import { orAborted } from '../../lib/wait.ts'
import type { Hex } from '../../schema/primitives.ts'
import { ChannelsBusy } from './channel-refused.ts'

/** Channels that one request to the RPC reads. */
const BATCH_MAX = 50
/** Channels that wait to be read. Beyond it no more are taken: strangers cost no more requests than this. */
const WAITING_MAX = 500

type PendingLook = { promise: Promise<ChannelState>; resolve(state: ChannelState): void; reject(reason: unknown): void }

/** Reads channels on the chain: those that are asked for at once in one request, and one request at a time. */
export class ChannelLooks {
  readonly #reader: Pick<ChannelReader, 'channels'>
  readonly #waiting = new Map<Hex, PendingLook>()
  #isReading = false

  constructor(reader: Pick<ChannelReader, 'channels'>) {
    this.#reader = reader
  }

  /** @throws ChainError, ChannelsBusy, or the reason of `signal` */
  look(id: Hex, signal?: AbortSignal): Promise<ChannelState> {
    let look = this.#waiting.get(id)
    if (look === undefined) {
      if (this.#waiting.size >= WAITING_MAX) throw new ChannelsBusy('this seller reads too many channels now')
      look = Promise.withResolvers<ChannelState>()
      look.promise.catch(() => {})
      this.#waiting.set(id, look)
      if (!this.#isReading) setImmediate(() => void this.#read())
      this.#isReading = true
    }
    return signal === undefined ? look.promise : orAborted(look.promise, signal)
  }

  async #read(): Promise<void> {
    while (this.#waiting.size > 0) {
      const batch = [...this.#waiting].slice(0, BATCH_MAX)
      for (const [id] of batch) this.#waiting.delete(id)
      try {
        const states = await this.#reader.channels(batch.map(([id]) => id))
        for (const [index, [, look]] of batch.entries()) look.resolve(states[index]!)
      } catch (error) {
        for (const [, look] of batch) look.reject(error)
      }
    }
    this.#isReading = false
  }
}
