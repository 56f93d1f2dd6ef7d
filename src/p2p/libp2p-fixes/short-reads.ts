/*
 * Upstream: not reported. Seen in @libp2p/noise 17.0.3.
 * Goes when: the decoder makes no new error at the end of each read. `upstream.test.ts` fails then.
 */

import type { ConnectionEncrypter, SecuredConnection } from '@libp2p/interface'
import type { Uint8ArrayList } from 'uint8arraylist'

/** Bytes of the length before each message. */
const LENGTH_BYTES = 2
/** The decoder waits for more bytes after any RangeError. */
const READ_ON = new RangeError('fewer bytes than a length')

/** A member of the secured connection that is not in the interface. */
type Decoding = { decoder?: { lengthDecoder?(data: Uint8ArrayList): number } }

/**
 * Wraps the Noise encrypter so that its decoders throw one shared error when they need more bytes.
 *
 * After each message the decoder looks for the next length, mostly in an empty buffer. It then makes an error with a stack,
 * which took more than 1 % of the CPU time of a busy node.
 */
export function readingOn<C>(create: (components: C) => ConnectionEncrypter): (components: C) => ConnectionEncrypter {
  return (components) => {
    const encrypter = create(components)
    const patched = async (securing: Promise<SecuredConnection>): Promise<SecuredConnection> => {
      const secured = await securing
      const { decoder } = secured.connection as Decoding
      if (decoder?.lengthDecoder !== undefined) decoder.lengthDecoder = lengthOf
      return secured
    }
    return {
      protocol: encrypter.protocol,
      secureOutbound: (below, options) => patched(encrypter.secureOutbound(below, options)),
      secureInbound: (below, options) => patched(encrypter.secureInbound(below, options)),
    }
  }
}

function lengthOf(data: Uint8ArrayList): number {
  if (data.byteLength < LENGTH_BYTES) throw READ_ON
  return (data.get(0) << 8) | data.get(1)
}
