/** The fields of a log line, as the API names them. Operators search for them, so that the list is short and typed. */
type Field =
  | 'peer_id'
  | 'caller_did'
  | 'agent_id'
  | 'agent_name'
  | 'order_id'
  | 'payment_id'
  | 'channel_id'
  | 'correlation_id'
  | 'workflow_id'
  | 'webhook_id'
  | 'tx_hash'
  | 'network'
  | 'model'
  /** The mount that logs: `http`, `a2a` or `mcp`. */
  | 'part'
  /** The operation of the API, tool, event, protocol or topic. */
  | 'operation'
  | 'method'
  /** Of HTTP, of a program that ended, or of a record. */
  | 'status'
  | 'ms'
  /** How many, for example failures in a row or listings. */
  | 'count'
  /** A multiaddr, a host or a URL. */
  | 'address'
  /** A file, a program or a route. */
  | 'path'
  /** Why, where nothing was thrown: what a facilitator or the chain answered, words of another program, cut short. */
  | 'reason'
type LogFields = { readonly [Name in Field]?: string | number | null | undefined } & { readonly err?: unknown }

/** Structured fields first, then a sentence. pino's logger fits this type and has the same levels. */
export interface Logger {
  debug(fields: LogFields, message: string): void
  info(fields: LogFields, message: string): void
  warn(fields: LogFields, message: string): void
  error(fields: LogFields, message: string): void
  child(fields: LogFields): Logger
}

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
