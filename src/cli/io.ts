import { isatty } from 'node:tty'
import type { Environment } from '../config/env.ts'

export type Output = {
  write(text: string): void
  /** Writes binary data to a file or another program. */
  writeBytes?(bytes: Uint8Array): void
  isTty: boolean
  columns?: number | undefined
}

/**
 * Everything that a command uses outside the node. Tests pass their own, so that a run stays inside the test process.
 */
export type Io = {
  stdout: Output
  stderr: Output
  stdin: AsyncIterable<Uint8Array> & { isTty: boolean }
  environment: Environment
  /** Aborts on the first Ctrl-C or SIGTERM. */
  signal: AbortSignal
}

export function processIo(environment: Environment, signal: AbortSignal): Io {
  return {
    stdout: outputOf(process.stdout),
    stderr: outputOf(process.stderr),
    // Opened only when a command reads it.
    stdin: { isTty: isatty(0), [Symbol.asyncIterator]: () => process.stdin[Symbol.asyncIterator]() },
    environment,
    signal,
  }
}

function outputOf(stream: NodeJS.WriteStream): Output {
  return {
    write: (text) => void stream.write(text),
    writeBytes: (bytes) => void stream.write(bytes),
    isTty: stream.isTTY === true,
    get columns() {
      // A terminal of unknown size reports 0.
      return stream.columns || undefined
    },
  }
}
