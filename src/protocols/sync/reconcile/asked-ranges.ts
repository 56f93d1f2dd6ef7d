import { type Bound, compareKeys } from './element-key.ts'
import { invalid } from './reconcile-error.ts'

/** A range that we asked about. `rest`: the older part of a list whose newest part was answered. */
export type AskedRange = { from: Bound; until: Bound; by: 'fingerprint' | 'list' | 'rest' }

/**
 * The ranges we asked about; the answers in one message are struck out. They ascend, so each is passed once.
 * @throws ReconcileError `RECONCILE_INVALID` for an answer to something that was not asked
 */
export class AskedRanges {
  readonly #asked: readonly AskedRange[]
  readonly #left: AskedRange[] = []
  #index = 0
  #current: AskedRange | undefined

  /** @param asked in ascending order, without overlap */
  constructor(asked: readonly AskedRange[]) {
    this.#asked = asked
    this.#current = asked[0]
  }

  /** Strikes out an `equal` answer. It may also cover ranges that are already settled. */
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

  /** Strikes out a part that the peer asks about in return; the whole range only if `whole` is true. */
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

  /** Strikes out the answer to a list, or to its newest part. Returns what was asked. */
  strikeNewest(from: Bound, until: Bound): AskedRange {
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

  left(): AskedRange[] {
    while (this.#current !== undefined) this.#keep(this.#current)
    return this.#left
  }

  /** Skips everything before `from`. It cuts a fingerprint range at `from`, but never a list. */
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

  #keep(asked: AskedRange): void {
    this.#left.push(asked)
    this.#next()
  }

  #next(): void {
    this.#current = this.#asked[++this.#index]
  }
}
