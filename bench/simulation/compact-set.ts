import { type Bound, type ElementKey, KEY_BYTES } from '../../src/protocols/sync/reconcile/element-key.ts'
import { type ElementSum, emptySum, SUM_WORDS } from '../../src/protocols/sync/reconcile/element-sum.ts'
import type { RangeView } from '../../src/protocols/sync/reconcile/range-index.ts'
import type { Universe } from './universe.ts'

/** Number of places in a page, a book and a shelf. */
const SPANS = [64, 64 * 32, 64 * 32 * 32] as const
type Level = { span: number; counts: Uint32Array; sums: Int32Array }

/**
 * A set of elements of the universe: one bit for each, with count and sum of each page, book and shelf of places. It is
 * a range view like the index. A million elements take 3 MB, however often the set changes.
 */
export class CompactSet implements RangeView {
  readonly #universe: Universe
  readonly #bits: Uint32Array
  readonly #levels: readonly Level[]
  #size = 0

  constructor(universe: Universe) {
    this.#universe = universe
    this.#bits = new Uint32Array(Math.ceil(universe.size / SPANS[0]) * (SPANS[0] / 32))
    this.#levels = SPANS.map((span) => {
      const length = Math.ceil(universe.size / span)
      return { span, counts: new Uint32Array(length), sums: new Int32Array(length * SUM_WORDS) }
    })
  }

  copy(): CompactSet {
    const copy = new CompactSet(this.#universe)
    copy.#bits.set(this.#bits)
    for (const [index, { counts, sums }] of this.#levels.entries()) {
      copy.#levels[index]!.counts.set(counts)
      copy.#levels[index]!.sums.set(sums)
    }
    copy.#size = this.#size
    return copy
  }

  get size(): number {
    return this.#size
  }

  has(element: number): boolean {
    return ((this.#bits[element >>> 5]! >>> (element & 31)) & 1) === 1
  }

  /** Adds an element that is not in the set. */
  add(element: number): void {
    this.#bits[element >>> 5]! |= 1 << (element & 31)
    this.#size++
    for (const { span, counts, sums } of this.#levels) {
      const index = Math.floor(element / span)
      counts[index]!++
      const [from, to] = [element * SUM_WORDS, index * SUM_WORDS]
      for (let word = 0; word < SUM_WORDS; word++) sums[to + word]! += this.#universe.words[from + word]!
    }
  }

  /** Removes an element that is in the set. */
  remove(element: number): void {
    this.#bits[element >>> 5]! &= ~(1 << (element & 31))
    this.#size--
    for (const { span, counts, sums } of this.#levels) {
      const index = Math.floor(element / span)
      counts[index]!--
      const [from, to] = [element * SUM_WORDS, index * SUM_WORDS]
      for (let word = 0; word < SUM_WORDS; word++) sums[to + word]! -= this.#universe.words[from + word]!
    }
  }

  clear(): void {
    this.#bits.fill(0)
    for (const { counts, sums } of this.#levels) {
      counts.fill(0)
      sums.fill(0)
    }
    this.#size = 0
  }

  equals(other: CompactSet): boolean {
    return this.#size === other.#size && this.#bits.every((word, index) => word === other.#bits[index])
  }

  rankOf(bound: Bound): number {
    const end = this.#universe.placeOf(bound)
    let place = 0
    let rank = 0
    for (const { span, counts } of this.#levels.toReversed()) {
      for (; place + span <= end; place += span) rank += counts[place / span]!
    }
    for (; place + 32 <= end; place += 32) rank += bitsIn(this.#bits[place / 32]!)
    return place === end ? rank : rank + bitsIn(this.#bits[place / 32]! & (2 ** (end - place) - 1))
  }

  keyAt(rank: number): ElementKey {
    return this.#universe.keyOf(this.#placeAt(rank))
  }

  keys(from: number, to: number): Uint8Array {
    const keys = new Uint8Array((to - from) * KEY_BYTES)
    if (from >= to) return keys
    for (let place = this.#placeAt(from), offset = 0; offset < keys.length; place++) {
      if (!this.has(place)) continue
      keys.set(this.#universe.keyOf(place), offset)
      offset += KEY_BYTES
    }
    return keys
  }

  sum(from: number, to: number): ElementSum {
    const sum = emptySum()
    if (from >= to) return sum
    const end = this.#placeAt(to - 1) + 1
    for (let place = this.#placeAt(from); place < end; ) {
      const level = this.#levels.findLast(({ span }) => place % span === 0 && place + span <= end)
      if (level !== undefined) addAt(sum, level.sums, place / level.span)
      else if (this.has(place)) addAt(sum, this.#universe.words, place)
      place += level?.span ?? 1
    }
    return sum
  }

  /** The place of the element with this rank. */
  #placeAt(rank: number): number {
    let place = 0
    let rest = rank
    for (const { span, counts } of this.#levels.toReversed()) {
      for (let count = counts[place / span]!; rest >= count; count = counts[place / span]!) {
        rest -= count
        place += span
      }
    }
    for (let count = bitsIn(this.#bits[place / 32]!); rest >= count; count = bitsIn(this.#bits[place / 32]!)) {
      rest -= count
      place += 32
    }
    let bits = this.#bits[place / 32]!
    for (; rest > 0; rest--) bits &= bits - 1
    return place + 31 - Math.clz32(bits & -bits)
  }
}

function addAt(sum: ElementSum, sums: Int32Array, index: number): void {
  const from = index * SUM_WORDS
  for (let word = 0; word < SUM_WORDS; word++) sum[word]! += sums[from + word]!
}

function bitsIn(word: number): number {
  let bits = word - ((word >>> 1) & 0x55555555)
  bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333)
  return Math.imul((bits + (bits >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}
