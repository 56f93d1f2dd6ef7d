import { reasonOf } from '../../lib/errors.ts'
import { faultPoint } from '../../lib/fault-point.ts'
import type { Logger } from '../../lib/logger.ts'
import { channelCallId } from '../../payments/channels/call-id.ts'
import type { SignedVoucher } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { X402Message } from '../../schema/x402.ts'

/** Vouchers that one call may bring. Beyond it the run is stopped: a buyer could raise by ever smaller amounts. */
const VOUCHERS_MAX = 64

/** A call whose ceiling its buyer raises while its output streams. */
type Growing = { peerId: string; raise(voucher: SignedVoucher, asked: bigint): void }
/** The calls that grow, by their ids. */
export type GrowingCalls = Map<Hex, Growing>

type GrowingOptions = {
  peerId: string
  /** What the call may cost so far, and at most. */
  asked: bigint
  most: bigint
  logger: Logger
  /** Reserves more for the call under this voucher. It is on disk when it resolves. */
  take(voucher: SignedVoucher, more: bigint): Promise<unknown>
  raised(asked: bigint): void
  /** The buyer sends too many vouchers. */
  stop(): void
}

/** Takes the vouchers of one call, one after the other. While one is taken, only the last of the others is kept. */
export class GrowingCall implements Growing {
  readonly peerId: string
  readonly #options: GrowingOptions
  #asked: bigint
  #vouchers = 0
  #next: { voucher: SignedVoucher; asked: bigint } | undefined
  #taking: Promise<void> | undefined
  #isOver = false

  constructor(options: GrowingOptions) {
    this.peerId = options.peerId
    this.#options = options
    this.#asked = options.asked
  }

  raise(voucher: SignedVoucher, asked: bigint): void {
    if (this.#isOver || asked <= this.#asked || asked > this.#options.most) return
    if (++this.#vouchers > VOUCHERS_MAX) {
      this.#isOver = true
      this.#options.stop()
      return
    }
    this.#next = { voucher, asked }
    this.#taking ??= this.#take().finally(() => {
      this.#taking = undefined
    })
  }

  /** Takes no more vouchers. @returns what is reserved for the call */
  async close(): Promise<bigint> {
    this.#isOver = true
    await this.#taking
    return this.#asked
  }

  async #take(): Promise<void> {
    for (let next = this.#next; next !== undefined; next = this.#next) {
      this.#next = undefined
      const { voucher, asked } = next
      if (asked <= this.#asked) continue
      try {
        await this.#options.take(voucher, asked - this.#asked)
        this.#asked = asked
        faultPoint('seller:stream-voucher-taken')
        this.#options.raised(asked)
      } catch (error) {
        this.#options.logger.debug({ reason: reasonOf(error) }, 'a voucher does not raise the ceiling of a call')
      }
    }
  }
}

/** Takes a voucher for a call that runs. One for another call, channel or peer is late or a stranger's: it changes nothing. */
export function takeGrowth(
  { asked, voucher, correlation_id: correlationId }: X402Message<'x402.voucher'>,
  peerId: string,
  calls: GrowingCalls,
): void {
  const call = calls.get(channelCallId(voucher.channelId.toLowerCase() as Hex, correlationId))
  if (call?.peerId === peerId) call.raise(voucher, asked)
}
