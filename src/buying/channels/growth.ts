import { reasonOf } from '../../lib/errors.ts'
import { faultPoint } from '../../lib/fault-point.ts'
import type { Logger } from '../../lib/logger.ts'
import { firstCeiling, nextCeiling } from '../../payments/channels/stream-steps.ts'
import type { FramedStream } from '../../protocols/framed-stream.ts'
import { sendX402Voucher } from '../../protocols/x402/send-voucher.ts'
import type { Pricing } from '../../schema/pricing.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { ChannelLine } from './channel-line.ts'

type GrowthOptions = {
  line: ChannelLine
  id: Hex
  correlationId: string
  pricing: Pricing
  task: string
  logger: Logger
}

/**
 * What a streamed call may cost now. It begins with a small ceiling, and rises by one step as the seller states what the
 * output costs, up to `max`. When the channel has no more, it rises no more: the seller ends the output with what was paid
 * for.
 */
export class Growth {
  readonly #options: GrowthOptions
  #granted: bigint
  #charged = 0n
  #isRaising = false
  #isOver = false

  constructor(options: GrowthOptions) {
    this.#options = options
    this.#granted = firstCeiling(options.pricing, options.task)
  }

  get granted(): bigint {
    return this.#granted
  }

  /** False once the whole call is covered: then it is a call like others. */
  get grows(): boolean {
    return this.#granted < this.#options.pricing.max
  }

  /** The seller states what the output costs. Answers with a voucher where it is time for one. */
  charged(amount: bigint, stream: FramedStream, signal: AbortSignal): void {
    if (amount > this.#charged) this.#charged = amount
    if (!this.#isRaising && !this.#isOver) void this.#raise(stream, signal)
  }

  /** Covers the whole call: its seller does not let it grow. @throws ChannelShort, StoreError */
  async coverAll(): Promise<void> {
    const { line, id, pricing } = this.#options
    await line.grow(id, { asked: pricing.max, most: pricing.max })
    this.#granted = pricing.max
  }

  async #raise(stream: FramedStream, signal: AbortSignal): Promise<void> {
    const { line, id, correlationId, pricing, logger } = this.#options
    const asked = nextCeiling({ granted: this.#granted, charged: this.#charged, max: pricing.max })
    if (asked === undefined) return
    this.#isRaising = true
    try {
      const voucher = await line.grow(id, { asked, most: pricing.max })
      this.#granted = asked
      faultPoint('buyer:stream-voucher-signed')
      await sendX402Voucher(stream, { correlationId, voucher, asked }, signal)
      faultPoint('buyer:stream-voucher-sent')
    } catch (error) {
      this.#isOver = true
      logger.info(
        { correlation_id: correlationId, reason: reasonOf(error) },
        'the ceiling of a streamed call rises no more',
      )
    } finally {
      this.#isRaising = false
    }
  }
}
