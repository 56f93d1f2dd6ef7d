/**
 * The log interface of the node's parts: structured fields first, then a sentence.
 *
 * pino's logger fits this type. Levels are those of pino: debug, info, warn, error.
 */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  child(fields: object): Logger
}

/** Discards everything. */
export const silentLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  child: () => silentLogger,
}

const levels = ['debug', 'info', 'warn', 'error'] as const

/** Creates the logger with its first line of level `least` or above. */
export function lazyLogger(least: (typeof levels)[number], make: () => Logger): Logger {
  let made: Logger | undefined
  const logger = () => {
    made ??= make()
    return made
  }
  const writer =
    (level: (typeof levels)[number]): Logger['info'] =>
    (fields, message) => {
      if (levels.indexOf(level) >= levels.indexOf(least)) logger()[level](fields, message)
    }
  return {
    debug: writer('debug'),
    info: writer('info'),
    warn: writer('warn'),
    error: writer('error'),
    child: (fields) => lazyLogger(least, () => logger().child(fields)),
  }
}
