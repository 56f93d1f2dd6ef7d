import { ListingSet, type MergeOutcome } from '../../src/listings/set.ts'
import { boundAt } from '../../src/protocols/sync/reconcile/element-key.ts'
import { RangeIndex, type RangeView } from '../../src/protocols/sync/reconcile/range-index.ts'
import type { CompactSet } from './compact-set.ts'
import type { Universe } from './universe.ts'

/** A node's replica over elements of the universe. */
export interface SimulatedReplica {
  holds(element: number): boolean
  /** The result that `merge` would return. */
  judge(element: number): MergeOutcome
  merge(element: number): MergeOutcome
  view(): RangeView
  clear(): void
}

/** Merges like listings/set.ts, by its order of versions, and holds one bit for each element. */
export class CompactReplica implements SimulatedReplica {
  readonly set: CompactSet
  readonly #universe: Universe
  readonly #compare: (a: number, b: number) => number

  constructor(set: CompactSet, universe: Universe, compare: (a: number, b: number) => number) {
    this.set = set
    this.#universe = universe
    this.#compare = compare
  }

  holds(element: number): boolean {
    return this.set.has(element)
  }

  judge(element: number): MergeOutcome {
    const held = this.#heldOf(element)
    if (held < 0) return 'added'
    const order = this.#compare(element, held)
    return order > 0 ? 'replaced' : order === 0 ? 'known' : 'older'
  }

  merge(element: number): MergeOutcome {
    const outcome = this.judge(element)
    if (outcome === 'replaced') this.set.remove(this.#heldOf(element))
    if (outcome === 'added' || outcome === 'replaced') this.set.add(element)
    return outcome
  }

  view(): RangeView {
    return this.set
  }

  clear(): void {
    this.set.clear()
  }

  /** The stored version of the same listing, or -1. */
  #heldOf(element: number): number {
    const { latest, before, listingOf } = this.#universe
    let held = latest[listingOf[element]!]!
    while (held >= 0 && !this.set.has(held)) held = before[held]!
    return held
  }
}

/**
 * A replica of the real set of listings and the real index, with a compact replica beside it. Any disagreement ends the
 * simulation.
 */
export class WitnessReplica implements SimulatedReplica {
  readonly #universe: Universe
  readonly #compact: CompactReplica
  readonly #now: () => number
  #set: ListingSet
  #index: RangeIndex

  constructor(compact: CompactReplica, universe: Universe, now: () => number) {
    this.#universe = universe
    this.#compact = compact
    this.#now = now
    const held = Array.from({ length: universe.size }, (_, element) => element).filter((one) => compact.holds(one))
    this.#set = emptySet()
    for (const element of held) this.#set.merge(universe.entryOf(element), now())
    this.#index = new RangeIndex(held.map((element) => universe.keyOf(element)))
    this.check()
  }

  holds(element: number): boolean {
    return this.#index.has(this.#universe.keyOf(element))
  }

  judge(element: number): MergeOutcome {
    return this.#set.judge(this.#universe.entryOf(element), this.#now()).outcome
  }

  merge(element: number): MergeOutcome {
    const entry = this.#universe.entryOf(element)
    const held = this.#set.get(entry.record.id)
    const { outcome } = this.#set.merge(entry, this.#now())
    if (outcome === 'added' || outcome === 'replaced') {
      if (held !== undefined) this.#index.delete(this.#universe.keyOf(this.#elementOf(held.record.version)))
      this.#index.add(this.#universe.keyOf(element))
    }
    const modeled = this.#compact.merge(element)
    if (modeled !== outcome) throw new Error(`the model merges element ${element}: ${modeled}, the replica: ${outcome}`)
    return outcome
  }

  view(): RangeView {
    return this.#index.snapshot()
  }

  clear(): void {
    this.#set = emptySet()
    this.#index = new RangeIndex()
    this.#compact.clear()
  }

  /** @throws Error if set, index and model hold different elements */
  check(): void {
    const view = this.view()
    const model = this.#compact.view()
    const same = view.size === model.size && view.size === this.#set.size
    if (!same || Buffer.compare(view.keys(0, view.size), model.keys(0, model.size)) !== 0) {
      throw new Error(`a witness holds ${this.#set.size} listings, ${view.size} elements; its model ${model.size}`)
    }
    const [sum, modeled] = [view.sum(0, view.size), model.sum(0, model.size)]
    if (!sum.every((word, index) => word === modeled[index])) throw new Error('a witness and its model differ in sum')
  }

  /** Finds an element by its version: no two elements of the universe have the same time. */
  #elementOf(version: number): number {
    return this.#universe.placeOf(boundAt(version))
  }
}

function emptySet(): ListingSet {
  return new ListingSet({ listingsMax: 10_000_000, bytesMax: Number.MAX_SAFE_INTEGER })
}
