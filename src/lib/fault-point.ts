/**
 * A named point in the money path where a test can kill the process.
 *
 * Does nothing unless main.ts has armed it. Crash tests arm a point to stop the node as a power cut would.
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
