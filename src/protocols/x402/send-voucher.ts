import type { SignedVoucher } from '../../schema/channel.ts'
import type { FramedStream } from '../framed-stream.ts'
import { VERSION, writeMessage } from './messages.ts'

/** Raises the ceiling of a call that streams. It has no answer. */
export function sendX402Voucher(
  stream: FramedStream,
  { correlationId, voucher, asked }: { correlationId: string; voucher: SignedVoucher; asked: bigint },
  signal: AbortSignal,
): Promise<void> {
  const message = { version: VERSION, correlation_id: correlationId, voucher, asked } as const
  return writeMessage(stream, 'x402.voucher', message, signal)
}
