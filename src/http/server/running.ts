import type { ServerResponse } from 'node:http'

/** Requests whose handlers wait for something, each with the signal that tells it to give up. */
export class Running {
  readonly #controllers = new Set<AbortController>()
  #reason: Error | undefined

  /** Aborts when the client has gone before its answer was written, or when the node stops. */
  signalOf(response: ServerResponse): AbortSignal {
    const controller = new AbortController()
    this.#controllers.add(controller)
    response.once('close', () => {
      this.#controllers.delete(controller)
      if (!response.writableFinished) controller.abort()
    })
    if (response.destroyed) controller.abort()
    if (this.#reason !== undefined) controller.abort(this.#reason)
    return controller.signal
  }

  /** Tells all, also those still to come. */
  abortAll(reason: Error): void {
    this.#reason = reason
    for (const controller of this.#controllers) controller.abort(reason)
  }
}
