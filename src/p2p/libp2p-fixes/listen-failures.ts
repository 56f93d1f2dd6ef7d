/*
 * Upstream: not reported. Seen in libp2p 3.3.11.
 * Goes when: libp2p says why it could not listen although failures are tolerated.
 */

import type { Listener, Transport } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'

/** An address that this node could not listen on, and why. */
export type ListenFailure = { address: Multiaddr; error: unknown }

/** Makes a transport record why it could not listen. libp2p hides the reasons when failures are tolerated. */
export function noteFailures(transport: Transport, failures: ListenFailure[]): Transport {
  const createListener = transport.createListener.bind(transport)
  transport.createListener = (options): Listener => {
    const listener = createListener(options)
    const listen = listener.listen.bind(listener)
    listener.listen = async (address) => {
      try {
        await listen(address)
      } catch (error) {
        failures.push({ address, error })
        throw error
      }
    }
    return listener
  }
  return transport
}
