import { isatty } from 'node:tty'
import { systemParts } from './cli/parts.ts'
import { runCli } from './cli/program.ts'
import { createRedactor } from './cli/redactor.ts'
import { processEnvironment } from './config/env.ts'

const environment = processEnvironment()
const redactor = createRedactor(environment)
const stop = new AbortController()

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    // The first asks, the second insists.
    if (stop.signal.aborted) process.exit(130)
    stop.abort(new Error(`stopped by ${signal}`))
  })
}
process.on('uncaughtException', (error) => {
  process.stderr.write(`${redactor.redact(`fatal: ${error instanceof Error ? error.stack : String(error)}`)}\n`)
  process.exit(1)
})
// `stoa agent discover | head` closes the pipe early: nobody is left to tell.
process.stdout.on('error', () => process.exit(0))
process.stderr.on('error', () => {})

const output = (stream: NodeJS.WriteStream) => ({
  write: (text: string) => void stream.write(text),
  isTty: stream.isTTY === true,
  get columns() {
    return stream.columns
  },
})
const io = {
  stdout: output(process.stdout),
  stderr: output(process.stderr),
  // Opened only by a command that reads it.
  stdin: { isTty: isatty(0), [Symbol.asyncIterator]: () => process.stdin[Symbol.asyncIterator]() },
  environment,
  signal: stop.signal,
}
const status = await runCli(process.argv.slice(2), io, systemParts, redactor)
process.stdout.write('', () => process.exit(status))
