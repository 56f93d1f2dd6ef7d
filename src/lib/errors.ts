/**
 * Base of every error that this node throws on purpose. `code` is the stable name that adapters (HTTP, x402, CLI)
 * translate. `message` is for people and says what to do.
 */
export class CodedError<Code extends string = string> extends Error {
  override name = 'CodedError'
  readonly code: Code

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** The message of any thrown value. A promise may also reject with an event, such as the close of a connection. */
export function reasonOf(thrown: unknown): string {
  if (thrown instanceof Event) {
    const { error } = thrown as Event & { error?: unknown }
    return error === undefined ? `a connection ended (${thrown.type})` : reasonOf(error)
  }
  return thrown instanceof Error ? thrown.message : String(thrown)
}
