import type { Hex } from '../../schema/primitives.ts'
import { keccak256 } from '../keccak.ts'

/**
 * The payment id of a call on a channel: both sides compute it, before the call and after a restart. The channel guards the
 * money, this id guards the work: a seller answers a known id with what it has stored.
 *
 * @param correlationId a UUID
 */
export function channelCallId(channelId: Hex, correlationId: string): Hex {
  const bytes = Buffer.from(channelId.slice(2) + correlationId.replaceAll('-', ''), 'hex')
  return `0x${Buffer.from(keccak256(bytes)).toString('hex')}`
}
