import type { Dispatcher } from 'undici'

export type HttpCall = {
  method: 'GET' | 'POST'
  path: string
  body: string | null
  answerBytesMax: number
  headers?: Record<string, string>
}
export type HttpAnswer = { status: number; text: string }

/**
 * One HTTP request to its whole answer.
 *
 * A settlement is one small request and one small answer: without a stream for the body, undici takes half the time.
 *
 * @throws the signal's reason, an answer that is too long, or what the connection fails with
 */
export function httpCall(dispatcher: Dispatcher, call: HttpCall, signal: AbortSignal): Promise<HttpAnswer> {
  const { method, path, body, answerBytesMax } = call
  const headers = { ...call.headers, ...(body === null ? {} : { 'content-type': 'application/json' }) }
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let [status, length] = [0, 0]
    let controller: Dispatcher.DispatchController | undefined
    // One that waits for a connection has no controller yet; it must not wait for the end of its time.
    const aborted = () => {
      controller?.abort(signal.reason)
      reject(signal.reason)
    }
    const ended = () => signal.removeEventListener('abort', aborted)
    signal.addEventListener('abort', aborted)
    dispatcher.dispatch(
      { method, path, body, headers },
      {
        onRequestStart(started) {
          controller = started
          if (signal.aborted) started.abort(signal.reason)
        },
        onResponseStart(_controller, statusCode) {
          status = statusCode
        },
        onResponseData(_controller, chunk) {
          length += chunk.length
          chunks.push(chunk)
          if (length > answerBytesMax) controller?.abort(new Error(`the answer is longer than ${answerBytesMax} bytes`))
        },
        onResponseEnd() {
          ended()
          resolve({ status, text: Buffer.concat(chunks).toString('utf8') })
        },
        onResponseError(_controller, error) {
          ended()
          reject(error)
        },
      },
    )
    if (signal.aborted) aborted()
  })
}
