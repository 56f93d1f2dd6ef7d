import { generateKeyPair } from '@libp2p/crypto/keys'
import type { ConnectionEncrypter, MessageStream, Upgrader } from '@libp2p/interface'
import { defaultLogger } from '@libp2p/logger'
import type { NoiseComponents } from '@libp2p/noise'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { multiaddrConnectionPair } from '@libp2p/utils'
import { Uint8ArrayList } from 'uint8arraylist'

/** Two ends of a connection in memory, secured by an encrypter. */
export async function securedPair(
  create: (components: NoiseComponents) => ConnectionEncrypter,
): Promise<{ from: MessageStream; to: MessageStream }> {
  const side = async () => {
    const privateKey = await generateKeyPair('Ed25519')
    const upgrader = { getStreamMuxers: () => new Map() } as unknown as Upgrader
    return create({ peerId: peerIdFromPrivateKey(privateKey), privateKey, logger: defaultLogger(), upgrader })
  }
  const [near, far] = multiaddrConnectionPair()
  const [dialer, listener] = [await side(), await side()]
  const [out, into] = await Promise.all([dialer.secureOutbound(near), listener.secureInbound(far)])
  return { from: out.connection, to: into.connection }
}

/** What a secured connection throws where the next message has not begun. */
export function endOfRead(connection: MessageStream): unknown {
  const { decoder } = connection as unknown as { decoder: { lengthDecoder(data: Uint8ArrayList): number } }
  try {
    return decoder.lengthDecoder(new Uint8ArrayList())
  } catch (error) {
    return error
  }
}
