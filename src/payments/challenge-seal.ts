import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'

/** Whom a challenge is for, and for what. */
export type ChallengeTerms = { peerId: string; correlationId: string; resource: string }

/**
 * Makes the nonces of challenges, so that every process of a seller knows them again, also after a restart (ADR-31).
 *
 * A nonce is the time at which the challenge expires, a mark of the process, a short sum of the agent's id, a count, and a
 * MAC over these and the terms. The key comes from the identity key of the seller, which all its processes have and nobody else.
 */
export type ChallengeSeal = {
  seal(terms: ChallengeTerms, expiresAt: UnixMs): Hex
  /** Undefined: this seller has not issued this nonce for these terms. `isOwn`: this process has, since its start. */
  open(nonce: Hex, terms: ChallengeTerms): { expiresAt: UnixMs; isOwn: boolean } | undefined
}

const EXPIRY_BYTES = 6
const PROCESS_BYTES = 4
const AGENT_AT = EXPIRY_BYTES + PROCESS_BYTES
const COUNT_AT = AGENT_AT + 4
const COUNTS = 2 ** 16
const HEAD_BYTES = COUNT_AT + 2
const MAC_BYTES = 16
const NONCE = /^0x[0-9a-f]{64}$/i

/** @param secret the private identity key */
export function createChallengeSeal(secret: Uint8Array, random: (bytes: number) => Uint8Array): ChallengeSeal {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'stoa challenge nonces', 32))
  const process = Buffer.from(random(PROCESS_BYTES))
  let count = 0
  const macOf = (head: Buffer, { peerId, correlationId, resource }: ChallengeTerms) =>
    createHmac('sha256', key)
      .update(head)
      .update(JSON.stringify([peerId, correlationId, resource]))
      .digest()
      .subarray(0, MAC_BYTES)

  return {
    seal(terms, expiresAt) {
      const head = Buffer.alloc(HEAD_BYTES)
      head.writeUIntBE(expiresAt, 0, EXPIRY_BYTES)
      head.set(process, EXPIRY_BYTES)
      head.writeUInt32BE(crc32(terms.resource), AGENT_AT)
      count = (count + 1) % COUNTS
      head.writeUInt16BE(count, COUNT_AT)
      return `0x${Buffer.concat([head, macOf(head, terms)]).toString('hex')}`
    },
    open(nonce, terms) {
      if (!NONCE.test(nonce)) return undefined
      const bytes = Buffer.from(nonce.slice(2), 'hex')
      const head = bytes.subarray(0, HEAD_BYTES)
      // At most one of many agents fits. A MAC for each would cost a millisecond.
      if (head.readUInt32BE(AGENT_AT) !== crc32(terms.resource)) return undefined
      if (!timingSafeEqual(bytes.subarray(HEAD_BYTES), macOf(head, terms))) return undefined
      const isOwn = process.equals(head.subarray(EXPIRY_BYTES, AGENT_AT))
      return { expiresAt: head.readUIntBE(0, EXPIRY_BYTES), isOwn }
    },
  }
}
