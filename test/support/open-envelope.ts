import { CodedError } from '../../src/lib/errors.ts'
import { readEnvelope } from '../../src/p2p/envelope.ts'
import { checkSignature } from '../../src/p2p/signature.ts'

/**
 * Opens a signed envelope from any source: what it says, and which peer says it.
 *
 * @throws CodedError `ENVELOPE_INVALID`
 */
export async function openEnvelope(bytes: Uint8Array): Promise<{ peerId: string; payload: Uint8Array }> {
  const { peerId, payload, check } = readEnvelope(bytes)
  if (await checkSignature(check())) return { peerId, payload }
  throw new CodedError('ENVELOPE_INVALID', 'not a signed listing: its signature does not match')
}
