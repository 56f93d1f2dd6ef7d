import type { Dispatcher } from 'undici'
import { GatheredBytes } from '../lib/gathered-bytes.ts'

type HttpCall = {
  method: 'GET' | 'POST'
  path: string
  body: string | null
  answerBytesMax: number
  headers?: Record<string, string>
}
type HttpAnswer = { status: number; text: string }

/**
 * Sends one HTTP request and reads the whole answer. Apart from `lib/http.ts`: undici's dispatch without body streams
 * takes half the time, because request and answer of a settlement are small.
 *
 * @throws the signal's reason, an error for an answer that is too long, or the connection's error
 */
export function httpCall(dispatcher: Dispatcher, call: HttpCall, signal: AbortSignal): Promise<HttpAnswer> {
  const { method, path, body, answerBytesMax } = call
  const headers = { ...call.headers, ...(body === null ? {} : { 'content-type': 'application/json' }) }
  return new Promise((resolve, reject) => {
    const read = new GatheredBytes()
    let status = 0
    let controller: Dispatcher.DispatchController | undefined
    // A request that waits for a connection has no controller yet, so reject it here.
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
          if (read.length + chunk.length <= answerBytesMax) read.add(chunk)
          else controller?.abort(new Error(`the answer is longer than ${answerBytesMax} bytes`))
        },
        onResponseEnd() {
          ended()
          resolve({ status, text: read.bytes().toString('utf8') })
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
