/**
 * Bytes that arrive in pieces, joined as they come. A sender decides how small its pieces are: kept as they came, each piece
 * of one byte would cost an object of some 200 bytes.
 */
export class GatheredBytes {
  #block = Buffer.alloc(0)
  #length = 0

  get length(): number {
    return this.#length
  }

  add(piece: Uint8Array): void {
    const length = this.#length + piece.length
    if (length > this.#block.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(length, 2 * this.#block.length))
      this.#block.copy(larger, 0, 0, this.#length)
      this.#block = larger
    }
    this.#block.set(piece, this.#length)
    this.#length = length
  }

  /** All bytes so far. A piece that is added later does not change them. */
  bytes(): Buffer {
    return this.#block.subarray(0, this.#length)
  }
}
