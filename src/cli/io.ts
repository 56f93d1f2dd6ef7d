import type { Environment } from '../config/env.ts'

/** One of the two outputs of a command. */
export type Output = { write(text: string): void; isTty: boolean; columns?: number | undefined }

/** Everything a command touches outside the node. Tests pass their own, so that a whole run stays in their process. */
export type Io = {
  stdout: Output
  stderr: Output
  stdin: AsyncIterable<Uint8Array> & { isTty: boolean }
  environment: Environment
  /** Aborts on the first Ctrl-C or SIGTERM. */
  signal: AbortSignal
}
