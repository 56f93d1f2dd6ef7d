import type { ServerResponse } from 'node:http'

/** Requests whose handlers are running, each with its abort signal. */
export class RunningRequests {
  readonly #controllers = new Set<AbortController>()
  #reason: Error | undefined

  /** Aborts when the client has left before its answer was written, or when the node stops. */
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

  /** Aborts all requests, including later ones. */
  abortAll(reason: Error): void {
    this.#reason = reason
    for (const controller of this.#controllers) controller.abort(reason)
  }
}
