/*
 * Upstream: not reported for libp2p; https://github.com/mafintosh/multicast-dns/pull/70 (open) has the same error. Seen in
 * @libp2p/utils 7.4.1 and multicast-dns 7.2.5.
 * Goes when: both catch the error of `os.networkInterfaces`. `upstream.test.ts` fails then for @libp2p/utils.
 */

import os from 'node:os'

let isSteady = false

/**
 * Remembers the system's list of network interfaces, and returns the last list while the system refuses to give one.
 *
 * Each request needs a file descriptor. libp2p asks on timers and for every message about its addresses. With all
 * descriptors in use, each request threw an error that nobody caught.
 */
export function keepInterfacesSteady(): void {
  if (isSteady) return
  isSteady = true
  const ask = os.networkInterfaces
  let last: ReturnType<typeof ask> = {}
  os.networkInterfaces = () => {
    try {
      last = ask()
    } catch {
      // EMFILE or ENFILE: return the last list.
    }
    return last
  }
}
