import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { CodedError } from '../lib/errors.ts'
import { CALLER_HEADER } from '../schema/a2a.ts'
import { type Caller, STRANGER, strangerWith } from '../schema/caller.ts'

/** Long enough for a UUID or 16 random bytes. */
const Secret = /^[\x21-\x7e]{22,128}$/
/** Characters of the digest that is kept: 128 bits. */
const DIGEST_LENGTH = 32

/**
 * The stranger that sends a request, by the secret that it has chosen. Only a digest of it is kept.
 *
 * @throws CodedError INVALID_REQUEST for a secret that protects nothing: its sender would believe that it does
 */
export function strangerOf(headers: IncomingHttpHeaders): Caller {
  const secret = headers[CALLER_HEADER.toLowerCase()]
  if (secret === undefined) return STRANGER
  if (typeof secret !== 'string' || !Secret.test(secret)) {
    const form = '22 to 128 visible ASCII characters that nobody can guess, such as a UUID'
    throw new CodedError('INVALID_REQUEST', `the header ${CALLER_HEADER} must have ${form}`)
  }
  return strangerWith(createHash('sha256').update(secret).digest('hex').slice(0, DIGEST_LENGTH))
}
