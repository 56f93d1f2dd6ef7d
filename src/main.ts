import { processIo } from './cli/io.ts'
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
const tell = (what: string, error: unknown) => {
  process.stderr.write(`${redactor.redact(`${what}: ${error instanceof Error ? error.stack : String(error)}`)}\n`)
}
process.on('uncaughtException', (error) => {
  tell('fatal', error)
  process.exit(1)
})
// A promise that nobody waited for has broken no state; a peer that can provoke one must not end the node.
process.on('unhandledRejection', (reason) => tell('unhandled', reason))
// A reader may close the pipe early, as in `stoa start | head`. That ends commands that only show, and no node or purchase.
const onlyShows = ['events', 'logs', 'status'].includes(process.argv[2] ?? '')
process.stdout.on('error', () => onlyShows && process.exit(0))
process.stderr.on('error', () => {})

const status = await runCli(process.argv.slice(2), processIo(environment, stop.signal), systemParts, redactor)
process.stdout.write('', () => process.exit(status))
