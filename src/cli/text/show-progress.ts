import type { ExecutionResult } from '../../schema/api.ts'
import type { ExecutionProgress } from '../../schema/execution.ts'
import type { Context } from '../command.ts'
import { writeOutput } from './market-text.ts'
import { printable } from './terminal-text.ts'

/** Shows an execution while it goes on: words as they come, or with `--json` one object a line. */
export function showProgress(context: Context) {
  const { stdout } = context.io
  const line = (value: object) => stdout.write(`${JSON.stringify(value)}\n`)
  let shown = ''
  return {
    onProgress(progress: ExecutionProgress): void {
      if (context.json) line(progress)
      else if (progress.type === 'output') {
        const { text } = progress.data
        shown += text
        // Words of another party: nothing in them may act on the terminal (T10).
        stdout.write(stdout.isTty ? printable(text) : text)
      }
    },
    /** Only the result counts: what it holds beyond what was shown, or all of it where that was something else. */
    end(result: ExecutionResult): void {
      const { output } = result
      if (context.json) line({ type: 'result', data: result })
      else if (shown === `${output}\n`) return
      else if (output.startsWith(shown)) writeOutput(context, output.slice(shown.length))
      else {
        stdout.write('\n')
        context.tell('the result is another than what was shown:')
        writeOutput(context, output)
      }
    },
  }
}
