/** Names a point in the money path: a crash test that arms it stops the node there as a power cut would. */
let armed: string | undefined
let strike: () => void = () => {}

/** @internal Exported for tests. */
export function armFaultPoint(name: string, onReached: () => void): void {
  armed = name
  strike = onReached
}

export function faultPoint(name: string): void {
  if (armed === name) strike()
}
