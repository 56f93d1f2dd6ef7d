import type { FastifyReply } from 'fastify'
import { Hold } from '../../lib/hold.ts'
import { PublicError } from './public-error.ts'
import type { PublicLimits } from './public-limits.ts'

/** An answer of at most this many bytes takes no room. */
const SMALL_BYTES = 64 * 1024

/**
 * Takes room for an answer, which stays in memory until its client has read it. An answer that gets no room is replaced by a
 * refusal. Nothing is lost: the answer is stored, or has cost nothing.
 *
 * @param own the site of the request, and what goes back when its answer is read
 * @returns the payload to send
 */
export function answerInRoom(
  own: { site: string; holds: Hold[] } | undefined,
  reply: FastifyReply,
  payload: unknown,
  limits: PublicLimits,
): unknown {
  const bytes = typeof payload === 'string' ? Buffer.byteLength(payload) : 0
  if (own === undefined || bytes <= SMALL_BYTES) return payload
  const taken = limits.hold(own.site, bytes)
  if (taken instanceof Hold) {
    own.holds.push(taken)
    return payload
  }
  const many = 'too many answers wait to be read: send the same request again, a payment with it buys nothing twice'
  const { status, headers, body } = new PublicError('BUSY', many, { retryAfterSeconds: 2 })
  reply.removeHeader('content-length')
  reply.code(status).headers(headers).type('application/json')
  return body
}
