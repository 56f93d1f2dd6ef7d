import { readFileSync } from 'node:fs'

/** Causes of a late turn of the event loop, in ms: own work, waiting for a core, or waiting for the disk. */
export type Late = { late: number; work: number; crowd: number; disk: number }
/** The p99 of each cause over a period, and the worst turn. */
export type LoopReport = { turns: number; p99: Late; worst: Late }

const TICK_MS = 10

/**
 * Watches the event loop of this process. Linux reports for each thread how long it ran and how long it waited for a
 * core. So the watch separates our own delay from the delay of a busy machine.
 */
export function watchLoop(): { report(): LoopReport } {
  let seen: Late[] = []
  let before = look()
  setInterval(() => {
    const now = look()
    const late = Math.max(0, now.at - before.at - TICK_MS)
    const work = now.ran - before.ran
    const crowd = now.waited - before.waited
    seen.push({ late, work, crowd, disk: Math.max(0, late - work - crowd) })
    before = now
  }, TICK_MS).unref()
  return {
    report() {
      const turns = seen
      seen = []
      const p99 = (pick: (turn: Late) => number) => {
        const sorted = turns.map(pick).sort((a, b) => a - b)
        return Math.round(sorted[Math.floor(sorted.length * 0.99)] ?? 0)
      }
      const worst = turns.reduce((most, turn) => (turn.late > most.late ? turn : most), {
        late: 0,
        work: 0,
        crowd: 0,
        disk: 0,
      })
      return {
        turns: turns.length,
        p99: {
          late: p99((t) => t.late),
          work: p99((t) => t.work),
          crowd: p99((t) => t.crowd),
          disk: p99((t) => t.disk),
        },
        worst,
      }
    },
  }
}

/** In ms: the current time, and how long this thread has run and has waited for a core. */
function look(): { at: number; ran: number; waited: number } {
  const [ran, waited] = readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ').map(Number) as [number, number]
  return { at: performance.now(), ran: ran / 1e6, waited: waited / 1e6 }
}
