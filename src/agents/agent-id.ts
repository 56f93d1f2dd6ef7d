import { createHash } from 'node:crypto'
import { base32 } from 'multiformats/bases/base32'

/** 160 bits, so that two agents of the market never share an id by chance. */
const AGENT_ID_LENGTH = 32

/**
 * Derives the id of a seller's agent (D5), 32 characters of base32 that are safe in a path. Names are normalized to
 * NFC, so that both Unicode forms of `é` give the same id. @param sellerId the seller's libp2p peer id in base58
 */
export function agentId(sellerId: string, name: string): string {
  const digest = createHash('sha256')
    .update(`${sellerId}\n${name.normalize('NFC')}`, 'utf8')
    .digest()
  return base32.baseEncode(digest).slice(0, AGENT_ID_LENGTH)
}
