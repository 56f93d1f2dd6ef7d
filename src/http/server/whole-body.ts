import type { FastifyRequest } from 'fastify'
import { CodedError } from '../../lib/errors.ts'
import { bodyTooLarge, readBytes } from '../../lib/json-body.ts'
import { BODY_BYTES_MAX } from '../../schema/limits.ts'

/**
 * Reads the body of a request within the limit of its route. Fastify's own reader keeps all pieces of a body as they came,
 * and a sender decides how small they are: 8 MiB byte by byte took 2 GB.
 *
 * @throws CodedError BODY_TOO_LARGE; an error with the status 400 if the connection broke
 */
export async function wholeBody({ routeOptions }: FastifyRequest, payload: FastifyRequest['raw']): Promise<Buffer> {
  const bytesMax = routeOptions.bodyLimit ?? BODY_BYTES_MAX
  // A body that says so is refused before it is read.
  if (Number(payload.headers['content-length']) > bytesMax) throw bodyTooLarge(bytesMax)
  try {
    return await readBytes(payload, bytesMax)
  } catch (error) {
    if (error instanceof CodedError) throw error
    throw Object.assign(error as Error, { statusCode: 400 })
  }
}
