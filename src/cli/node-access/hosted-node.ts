import type { Environment } from '../../config/env.ts'
import type { Context } from '../command.ts'
import type { Io } from '../io.ts'
import { printableLine } from '../text/terminal-text.ts'
import { findRunningNode } from './running-node.ts'

/** The node of the text interface: a running one, or one in this process. */
export type HostedNode = { own: boolean /** Stops a node of this process. */; stop(): Promise<void> }

/** Input for a command without a user. */
export const noInput: Io['stdin'] = { isTty: true, async *[Symbol.asyncIterator]() {} }

/**
 * Uses the node that runs on the data directory, or starts one in this process. Starts it by `stoa start`, so that
 * behavior and messages are the same.
 *
 * @param say receives the messages of the start
 * @param stopped is told that the node has ended by itself
 */
export async function hostNode(
  context: Context,
  {
    environment,
    words,
    run,
    say,
    stopped,
  }: {
    environment: Environment
    words: readonly string[]
    run: Context['run']
    say(line: string): void
    stopped(): void
  },
): Promise<HostedNode> {
  const { config, secrets } = await context.loadConfig({})
  const running = await findRunningNode(context, config, secrets)
  if (running !== undefined) {
    const where = running.file.pid === undefined ? running.url : `${config.dataDir} (pid ${running.file.pid})`
    say(`using the node on ${where}; it keeps running when you leave`)
    return { own: false, async stop() {} }
  }
  const stop = new AbortController()
  const complaints: string[] = []
  const io: Io = {
    stdout: { isTty: false, write: (text) => sayLines(text.replace(/ *Ctrl-C stops the node\.\n/, ''), say) },
    stderr: {
      isTty: false,
      // The log is read from its file. Lines that are not JSON are error messages.
      write: (text) => sayLines(text, (line) => line.startsWith('{') || complaints.push(line)),
    },
    stdin: noInput,
    environment,
    signal: stop.signal,
  }
  const ended = run(['start', ...words], io).then((status) => {
    if (stop.signal.aborted) return
    stopped()
    for (const line of complaints) say(printableLine(line, 600))
    say(`the node stopped (status ${status}): leave with /exit`)
  })
  return {
    own: true,
    async stop() {
      stop.abort(new Error('left'))
      await ended
    },
  }
}

function sayLines(text: string, say: (line: string) => void): void {
  for (const line of text.replace(/\n$/, '').split('\n')) say(line)
}
