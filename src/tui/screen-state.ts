import type { Line } from './line-editor.ts'
import { emptyLine, lineOf, textOf } from './line-editor.ts'

/** Lines and entries kept. Beyond these the oldest are dropped. */
const OUTPUT_LINES_MAX = 2000
const LOG_LINES_MAX = 200
const HISTORY_MAX = 500

/** The content of the status panel. Parts that do not fit the terminal are left out. */
export type Panel = { well: boolean; parts: readonly (readonly string[])[] }

/** Everything on the screen. Replaced on each change, never mutated. */
export type Screen = {
  output: readonly string[]
  log: readonly string[]
  panel: Panel
  line: Line
  /** Rows scrolled up from the end of the output. */
  back: number
  /** The running command. */
  busy: string | undefined
  /** Completions for the text at the cursor. */
  candidates: readonly string[]
  history: readonly string[]
  /** The history index of the current line. Equal to the history's length for a new line. */
  at: number
}

/** Holds the screen's state and notifies its listeners of changes. */
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
    /** Stores the sent line in the history and begins a new one. */
    remember() {
      const text = textOf(screen.line).trim()
      const isNew = text !== '' && screen.history.at(-1) !== text
      const history = isNew ? [...screen.history, text].slice(-HISTORY_MAX) : screen.history
      change({ history, at: history.length, line: emptyLine, candidates: [], back: 0 })
    },
    recall(by: -1 | 1) {
      const at = Math.max(0, Math.min(screen.history.length, screen.at + by))
      if (at === screen.at) return
      change({ at, line: lineOf(screen.history[at] ?? ''), candidates: [] })
    },
  }
}
export type ScreenState = ReturnType<typeof createScreenState>
