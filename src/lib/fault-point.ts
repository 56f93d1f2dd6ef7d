/** A named point in the money path: a crash test that arms it stops the node there as a power cut would. */
let armed: string | undefined
let strike: () => void = () => {}

export function armFaultPoint(name: string, onReached: () => void): void {
  armed = name
  strike = onReached
}

export function faultPoint(name: string): void {
  if (armed === name) strike()
}
