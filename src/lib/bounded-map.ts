/** A map of at most `max` entries. A key that is set again becomes the newest. Beyond `max` the oldest is dropped. */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #max: number

  constructor(max: number) {
    super()
    this.#max = max
  }

  override set(key: Key, value: Value): this {
    this.delete(key)
    super.set(key, value)
    if (this.size > this.#max) this.delete(this.keys().next().value as Key)
    return this
  }
}
