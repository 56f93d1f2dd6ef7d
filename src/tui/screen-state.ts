import type { Line } from './line-editor.ts'
import { emptyLine, lineOf, textOf } from './line-editor.ts'

const OUTPUT_LINES_MAX = 2000
const LOG_LINES_MAX = 200
const HISTORY_MAX = 500

/** What the status panel says; each part is left out where the terminal is too narrow. */
export type Panel = { well: boolean; parts: readonly (readonly string[])[] }

/** Everything on the screen. Replaced, never changed. */
export type Screen = {
  output: readonly string[]
  log: readonly string[]
  panel: Panel
  line: Line
  /** Rows above the end of the output that are looked at. */
  back: number
  /** The command under way. */
  busy: string | undefined
  /** What could stand at the cursor. */
  candidates: readonly string[]
  history: readonly string[]
  /** Where in the history the line came from; its length: it is a new one. */
  at: number
}

/** The screen's state with its changes; whoever draws it listens. */
export function createScreenState() {
  let screen: Screen = {
    output: [],
    log: [],
    panel: { well: false, parts: [['starting']] },
    line: emptyLine,
    back: 0,
    busy: undefined,
    candidates: [],
    history: [],
    at: 0,
  }
  const listeners = new Set<() => void>()
  const change = (part: Partial<Screen>) => {
    screen = { ...screen, ...part }
    for (const listener of listeners) listener()
  }
  return {
    get: () => screen,
    subscribe(listener: () => void): () => void {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    change,
    print: (...lines: string[]) => change({ output: [...screen.output, ...lines].slice(-OUTPUT_LINES_MAX) }),
    log: (line: string) => change({ log: [...screen.log, line].slice(-LOG_LINES_MAX) }),
    /** The line has been sent: it is kept, and a new one begun. */
    remember() {
      const text = textOf(screen.line).trim()
      const isNew = text !== '' && screen.history.at(-1) !== text
      const history = isNew ? [...screen.history, text].slice(-HISTORY_MAX) : screen.history
      change({ history, at: history.length, line: emptyLine, candidates: [], back: 0 })
    },
    /** Up and down through what was sent before. */
    recall(by: -1 | 1) {
      const at = Math.max(0, Math.min(screen.history.length, screen.at + by))
      if (at === screen.at) return
      change({ at, line: lineOf(screen.history[at] ?? ''), candidates: [] })
    },
  }
}
export type ScreenState = ReturnType<typeof createScreenState>
