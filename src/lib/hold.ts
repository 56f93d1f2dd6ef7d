/** Something taken, which goes back at the end of its block (`using`). `keep` leaves it taken. */
export class Hold implements Disposable {
  #giveBack: (() => void) | undefined

  constructor(giveBack: (() => void) | undefined) {
    this.#giveBack = giveBack
  }

  keep(): void {
    this.#giveBack = undefined
  }

  [Symbol.dispose](): void {
    const giveBack = this.#giveBack
    this.#giveBack = undefined
    giveBack?.()
  }
}
