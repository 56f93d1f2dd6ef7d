import type { Logger } from './logger.ts'

/** After this time, and each time that it has passed again, the log says what is waited for. */
const TELL_MS = 3_000

/** Writes a line to the log while work takes long. @param reason undefined: nothing is to be said now */
export async function toldWait<T>(
  work: Promise<T>,
  { logger, reason }: { logger: Pick<Logger, 'warn'>; reason(): string | undefined },
): Promise<T> {
  let last: string | undefined
  const timer = setInterval(() => {
    const text = reason()
    if (text !== undefined && text !== last) logger.warn({}, text)
    last = text
  }, TELL_MS)
  try {
    return await work
  } finally {
    clearInterval(timer)
  }
}
