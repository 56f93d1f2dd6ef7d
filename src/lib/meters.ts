export type Labels = Readonly<Record<string, string>>
type Count = { labels: Labels; value: number }
/** `counts[i]`: observations of at most `bounds[i]`. The last count has no bound. */
type Histogram = { bounds: readonly number[]; counts: readonly number[]; sum: number }

/** Bounds in seconds, from instant to the longest run of an agent. */
const BOUNDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600]
/** Label combinations per counter. Our labels have few values, so more would be a bug and must not use up memory. */
const SERIES_MAX = 1_000

/** Counts events and durations, for metrics. Cheap if nobody reads them: no library, no database row, no timer. */
export class Meters {
  readonly #counters = new Map<string, Map<string, Count>>()
  readonly #histograms = new Map<string, { counts: number[]; sum: number }>()

  count(name: string, labels: Labels, by = 1): void {
    const series = this.#counters.get(name) ?? new Map<string, Count>()
    this.#counters.set(name, series)
    const key = Object.values(labels).join(' ')
    const known = series.get(key)
    if (known !== undefined) known.value += by
    else if (series.size < SERIES_MAX) series.set(key, { labels, value: by })
  }

  observe(name: string, seconds: number): void {
    const { counts, sum } = this.#histograms.get(name) ?? { counts: BOUNDS.map(() => 0).concat(0), sum: 0 }
    const place = BOUNDS.findIndex((bound) => seconds <= bound)
    counts[place < 0 ? BOUNDS.length : place]! += 1
    this.#histograms.set(name, { counts, sum: sum + seconds })
  }

  counts(name: string): readonly Count[] {
    return [...(this.#counters.get(name)?.values() ?? [])]
  }

  histogram(name: string): Histogram {
    const { counts, sum } = this.#histograms.get(name) ?? { counts: [], sum: 0 }
    let total = 0
    const cumulated = [...BOUNDS, Number.POSITIVE_INFINITY].map((_, place) => {
      total += counts[place] ?? 0
      return total
    })
    return { bounds: BOUNDS, counts: cumulated, sum }
  }
}
