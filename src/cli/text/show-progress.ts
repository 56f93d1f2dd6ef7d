import type { ExecutionResult } from '../../schema/api.ts'
import type { ExecutionProgress } from '../../schema/execution.ts'
import type { Context } from '../command.ts'
import { writeOutput } from './market-text.ts'
import { printable } from './terminal-text.ts'

/** Shows the progress of an execution: text as it arrives, or one JSON object per line with `--json`. */
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
        // Text of another party must not control the terminal (T10).
        stdout.write(stdout.isTty ? printable(text) : text)
      }
    },
    /** Only the result counts. Prints the part not shown yet, or all of it if it differs from what was shown. */
    end(result: ExecutionResult): void {
      const { output } = result
      if (context.json) line({ type: 'result', data: result })
      else if (shown === `${output}\n`) return
      else if (output.startsWith(shown)) writeOutput(context, output.slice(shown.length))
      else {
        stdout.write('\n')
        context.tell('the final result differs from the output above:')
        writeOutput(context, output)
      }
    },
  }
}
