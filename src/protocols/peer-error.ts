import { CodedError } from '../lib/errors.ts'
import type { ChannelStatement } from '../schema/channel.ts'
import { Hash32, type Hex } from '../schema/primitives.ts'
import { type X402ErrorName, x402Errors } from '../schema/x402.ts'

/** A failure that either side sends in both peer protocols: a row of the error table and a reason. */
export class PeerError extends CodedError<X402ErrorName> {
  override name = 'PeerError'
  readonly retryable: boolean
  /** True if the error arrived under a name that is not in the table. */
  readonly isForeign: boolean
  correlationId: string | undefined
  /** The order of the buyer that received the error. */
  orderId: string | undefined
  /** The transaction in which the seller claims to have refunded the settled payment. */
  refundTx: Hex | undefined
  /** Why a seller does not take a call on a channel. */
  channel: ChannelStatement | undefined

  constructor(
    code: X402ErrorName,
    message: string,
    options: ErrorOptions & { retryable?: boolean; isForeign?: boolean } = {},
  ) {
    super(code, message, options)
    this.retryable = options.retryable ?? x402Errors[code].retryable
    this.isForeign = options.isForeign ?? false
  }

  get errorCode(): number {
    return x402Errors[this.code].code
  }
}

/**
 * Converts an error received from a peer. The number identifies the error. The name counts only if the number is not in
 * the table. If neither is known, the error counts as EXECUTION_FAILED. The peer's `retryable` is believed.
 */
export function peerErrorFrom(wire: {
  number: number
  name: string
  message: string
  retryable: boolean
  refundTx?: unknown
  channel?: ChannelStatement | undefined
}): PeerError {
  const known = nameOf(wire.number) ?? (Object.hasOwn(x402Errors, wire.name) ? (wire.name as X402ErrorName) : undefined)
  const message = known === undefined ? `${wire.name}: ${wire.message}` : wire.message
  const isForeign = known === undefined
  const error = new PeerError(known ?? 'EXECUTION_FAILED', message, { retryable: wire.retryable, isForeign })
  error.refundTx = Hash32.safeParse(wire.refundTx).data as Hex | undefined
  error.channel = wire.channel
  return error
}

function nameOf(number: number): X402ErrorName | undefined {
  return (Object.keys(x402Errors) as X402ErrorName[]).find((name) => x402Errors[name].code === number)
}
