import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import type { Context } from './command.ts'
import { UsageError } from './exit-code.ts'

/**
 * Asks a yes-or-no question.
 *
 * @param deed what `--yes` does without asking, for example "to send"
 * @throws UsageError if there is no terminal to ask on
 */
export async function confirmed({ io, json, tell }: Context, question: string, deed: string): Promise<boolean> {
  if (!io.stdin.isTty || json)
    throw new UsageError(`there is no terminal to ask on: add --yes ${deed} without a question`)
  tell(question)
  const lines = createInterface({ input: Readable.from(io.stdin), signal: io.signal })
  try {
    for await (const line of lines) return /^y(es)?$/i.test(line.trim())
    return false
  } finally {
    lines.close()
  }
}
