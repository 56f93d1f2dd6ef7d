import type { Context } from '../command.ts'
import type { Output } from '../io.ts'

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
const FRAME_MS = 80

/** Shows that the command is waiting: a spinner on a terminal, plain lines elsewhere. */
export function startSpinner(output: Output, text: string): { update(text: string): void; stop(): void } {
  if (!output.isTty) {
    output.write(`${text}\n`)
    return { update: (next) => output.write(`${next}\n`), stop: () => {} }
  }
  let shown = text
  let frame = 0
  const draw = () => {
    const width = Math.max(1, (output.columns ?? 80) - 3)
    output.write(`\r\u001b[2K${FRAMES[frame++ % FRAMES.length]} ${shown.slice(0, width)}`)
  }
  draw()
  const timer = setInterval(draw, FRAME_MS)
  timer.unref()
  return {
    update(next) {
      shown = next
    },
    stop() {
      clearInterval(timer)
      output.write('\r\u001b[2K')
    },
  }
}

/** Runs `work` with a spinner, if somebody looks at a terminal. */
export function waiting<T>({ io, json }: Context, text: string, work: () => Promise<T>): Promise<T> {
  return withSpinner(io.stderr.isTty && !json ? io.stderr : undefined, text, work)
}

/** Runs `work` with a spinner. Removes the spinner in every case. */
export async function withSpinner<T>(output: Output | undefined, text: string, work: () => Promise<T>): Promise<T> {
  if (output === undefined) return await work()
  const spinner = startSpinner(output, text)
  try {
    return await work()
  } finally {
    spinner.stop()
  }
}
