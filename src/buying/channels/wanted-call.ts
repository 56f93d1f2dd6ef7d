import type { ChannelPayment } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'

/** A call that the channel is to pay. `reserve` stores its order and its reservation. */
export type WantedCall = {
  id: Hex
  asked: bigint
  /** May be signed beyond the calls, so that the next ones need no signature. */
  ahead: bigint
  reserve(): Promise<void>
}
export type WaitingCall = WantedCall & { resolve(payment: ChannelPayment): void; reject(error: unknown): void }
