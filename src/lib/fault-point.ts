/**
 * A named place in the money path at which a test can stop the process for good.
 *
 * Does nothing unless main.ts has armed it; the crash tests arm one to kill the node there as a power cut would.
 */
let armed: string | undefined
let strike: () => void = () => {}

export function armFaultPoint(name: string, onReached: () => void): void {
  armed = name
  strike = onReached
}

export function faultPoint(name: string): void {
  if (armed === name) strike()
}
