/** A program in a real pseudo-terminal. Tests type into it and read its screen. */
import { spawn } from '@lydell/node-pty'
import xterm from '@xterm/headless'
import { until } from './until.ts'

export type Terminal = {
  /** The lines of the screen without trailing blanks. */
  screen(): string
  type(text: string): void
  resize(columns: number, rows: number): void
  /** Waits until the screen shows the text. */
  shows(what: string | RegExp, timeoutMs?: number): Promise<void>
  readonly exited: Promise<number>
  /** All output to the terminal, with its control sequences. */
  raw(): string
  kill(signal?: 'SIGTERM'): void
}

export const keys = { enter: '\r', tab: '\t', up: '\u001b[A', down: '\u001b[B', ctrlC: '\u0003', pageUp: '\u001b[5~' }

export function openTerminal(
  argv: readonly string[],
  options: { environment: Record<string, string>; columns?: number; rows?: number; program?: string },
): Terminal {
  const size = { cols: options.columns ?? 80, rows: options.rows ?? 24 }
  const screen = new xterm.Terminal({ ...size, allowProposedApi: true })
  const { PATH = '', HOME = '' } = process.env
  const program = spawn(options.program ?? process.execPath, [...argv], {
    ...size,
    name: 'xterm-256color',
    env: { PATH, HOME, TERM: 'xterm-256color', ...options.environment },
  })
  let written = ''
  program.onData((data) => {
    written += data
    screen.write(data)
  })
  const exited = new Promise<number>((resolve) => program.onExit(({ exitCode }) => resolve(exitCode)))
  const lines = () => {
    const { active } = screen.buffer
    return Array.from(
      { length: screen.rows },
      (_, row) => active.getLine(active.viewportY + row)?.translateToString(true) ?? '',
    ).join('\n')
  }
  return {
    screen: lines,
    raw: () => written,
    type: (text) => program.write(text),
    resize(columns, rows) {
      screen.resize(columns, rows)
      program.resize(columns, rows)
    },
    async shows(what, timeoutMs = 60_000) {
      const found = () => (typeof what === 'string' ? lines().includes(what) : what.test(lines()))
      await until(found, { timeoutMs }).catch(() => {
        throw new Error(`the screen never showed ${what}:\n${lines()}`)
      })
    },
    exited,
    kill: (signal) => program.kill(signal ?? 'SIGKILL'),
  }
}
