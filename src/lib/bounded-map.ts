/** A map of at most `max` entries. A key that is set again becomes the newest. Beyond `max` the oldest is dropped. */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #max: number
  /**
   * Stands before the oldest entry while each `set` drops one. A new iterator would step over all that were dropped since the
   * engine last laid the map out anew: several µs where it holds 10,000. It goes as soon as the map has room, because it keeps
   * the layouts in memory that the map has had since its last step.
   */
  #oldest: Iterator<Key> | undefined

  constructor(max: number) {
    super()
    this.#max = max
  }

  override set(key: Key, value: Value): this {
    this.delete(key)
    super.set(key, value)
    if (this.size > this.#max) {
      this.#oldest ??= this.keys()
      this.delete(this.#oldest.next().value as Key)
    } else {
      this.#oldest = undefined
    }
    return this
  }
}
