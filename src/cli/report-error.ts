import { CodedError, reasonOf } from '../lib/errors.ts'
import { exitCodeOf, exitCodes } from './exit-code.ts'
import type { Io } from './io.ts'
import type { Redactor } from './redactor.ts'
import { printable, printableLine, type Style } from './text/terminal-text.ts'

type Deps = { io: Io; redactor: Redactor; json: boolean; style: Style }

/** Writes an error to standard error, one line per problem. Returns its exit status. */
export function reportError(error: unknown, { io, redactor, json, style }: Deps): number {
  if (io.signal.aborted) {
    io.stderr.write(
      json ? `${JSON.stringify({ error: { code: 'INTERRUPTED', message: 'interrupted' } })}\n` : 'interrupted\n',
    )
    return exitCodes.interrupted
  }
  const known = error instanceof CodedError
  const code = known ? error.code : 'INTERNAL'
  const message = redactor.redact(known ? reasonOf(error) : `unexpected failure: ${reasonOf(error)}`)
  const { correlationId, orderId, retryable } = detailsOf(error)
  if (json) {
    const details = {
      ...(correlationId !== undefined && { correlation_id: correlationId }),
      ...(orderId !== undefined && { order_id: orderId }),
      ...(retryable !== undefined && { retryable }),
    }
    io.stderr.write(`${JSON.stringify({ error: { code, message, ...details } })}\n`)
    return exitCodeOf(error)
  }
  for (const line of message.split('\n')) io.stderr.write(`${style.red('error:')} ${printableLine(line, 2000)}\n`)
  // Some messages say it themselves.
  if (orderId !== undefined && !message.includes(orderId))
    io.stderr.write(`${style.dim(`what became of it: stoa order show ${printableLine(orderId, 64)}`)}\n`)
  if (correlationId !== undefined)
    io.stderr.write(`${style.dim(`correlation id ${printableLine(correlationId, 64)}`)}\n`)
  // A bug in stoa: print the stack, which a bug report needs.
  if (!known && error instanceof Error) io.stderr.write(`${style.dim(printable(redactor.redact(error.stack ?? '')))}\n`)
  return exitCodeOf(error)
}

/** The details that errors of the market and the API carry in addition to their code. */
function detailsOf(error: unknown) {
  type Fields = { correlationId?: unknown; orderId?: unknown; retryable?: unknown; problem?: Record<string, unknown> }
  const fields = (error ?? {}) as Fields
  const correlationId = fields.correlationId ?? fields.problem?.correlation_id
  const orderId = fields.orderId ?? fields.problem?.order_id
  const retryable = fields.retryable ?? fields.problem?.retryable
  return {
    correlationId: typeof correlationId === 'string' ? correlationId : undefined,
    orderId: typeof orderId === 'string' ? orderId : undefined,
    retryable: typeof retryable === 'boolean' ? retryable : undefined,
  }
}
