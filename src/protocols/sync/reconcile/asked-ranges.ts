import { type Bound, compareKeys } from './element-key.ts'
import { invalid } from './reconcile-error.ts'

/** A range we asked about by its fingerprint or by a list; or of which the newest part of the answer has come. */
export type Asked = { from: Bound; until: Bound; by: 'fingerprint' | 'list' | 'rest' }

/**
 * The ranges that were asked about, while the answers in one message are struck out of them.
 *
 * A message goes upwards, so each range is passed once. @throws ReconcileError `RECONCILE_INVALID` for an answer to
 * something that was not asked
 */
export class AskedRanges {
  readonly #asked: readonly Asked[]
  readonly #left: Asked[] = []
  #index = 0
  #current: Asked | undefined

  /** @param asked in ascending order, none overlapping another */
  constructor(asked: readonly Asked[]) {
    this.#asked = asked
    this.#current = asked[0]
  }

  /** May reach over ranges that are settled. */
  strikeEqual(from: Bound, until: Bound): void {
    this.#goTo(from)
    let struck = false
    while (this.#current !== undefined && compareKeys(this.#current.from, until) < 0) {
      if (this.#current.by !== 'fingerprint') throw invalid('a list was answered with equal')
      this.#strike(until)
      struck = true
    }
    if (!struck) throw invalid('equal, where nothing was asked')
  }

  /** The peer asks in return, about a part, or about the `whole` if it may. */
  strikePart(from: Bound, until: Bound, { whole }: { whole: boolean }): void {
    this.#goTo(from)
    const current = this.#current
    if (current?.by !== 'fingerprint') throw invalid('an answer to what was not asked')
    if (compareKeys(current.from, from) !== 0 || compareKeys(until, current.until) > 0) {
      throw invalid('an answer that reaches beyond what was asked')
    }
    const isWhole = current === this.#asked[this.#index] && compareKeys(current.until, until) === 0
    if (isWhole && !whole) throw invalid('a question was answered with the same question')
    this.#strike(until)
  }

  /** The answer to a list, or its newest part. Returns what was asked. */
  strikeNewest(from: Bound, until: Bound): Asked {
    this.#goTo(from)
    const current = this.#current
    if (current === undefined || current.by === 'fingerprint') throw invalid('the answer to a list that was not sent')
    if (compareKeys(current.until, until) !== 0 || compareKeys(from, current.from) < 0) {
      throw invalid('an answer that reaches beyond its list')
    }
    if (compareKeys(current.from, from) < 0) this.#left.push({ from: current.from, until: from, by: 'rest' })
    this.#next()
    return current
  }

  /** What is still asked. */
  left(): Asked[] {
    while (this.#current !== undefined) this.#keep(this.#current)
    return this.#left
  }

  /** Leaves behind what is before `from`. A list is not cut. */
  #goTo(from: Bound): void {
    while (this.#current !== undefined && compareKeys(this.#current.until, from) <= 0) this.#keep(this.#current)
    const current = this.#current
    if (current?.by !== 'fingerprint' || compareKeys(current.from, from) >= 0) return
    this.#left.push({ ...current, until: from })
    this.#current = { ...current, from }
  }

  #strike(until: Bound): void {
    const current = this.#current!
    if (compareKeys(current.until, until) > 0) this.#current = { ...current, from: until }
    else this.#next()
  }

  #keep(asked: Asked): void {
    this.#left.push(asked)
    this.#next()
  }

  #next(): void {
    this.#current = this.#asked[++this.#index]
  }
}
