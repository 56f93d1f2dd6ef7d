import os from 'node:os'

let isSteady = false

/**
 * Has the system's answer about network interfaces remembered, and given again while it refuses one.
 *
 * Each answer takes a file descriptor. libp2p asks on timers and for every message about its addresses: with all descriptors in
 * use, each time an error was thrown that nobody waited for.
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
      // EMFILE or ENFILE: what was true a moment ago.
    }
    return last
  }
}
