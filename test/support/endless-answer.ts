/** A 200 answer whose JSON never ends, and a count of the bytes that were read. */
export function endlessAnswer(begin: string): { response: Response; bytesRead(): number; isCanceled(): boolean } {
  const piece = new TextEncoder().encode(' '.repeat(64 * 1024))
  let [bytes, canceled] = [0, false]
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new TextEncoder().encode(begin)),
    pull(controller) {
      bytes += piece.byteLength
      // Stops a test that reads without a limit.
      if (bytes > 64 * 1024 * 1024) controller.close()
      else controller.enqueue(piece)
    },
    cancel() {
      canceled = true
    },
  })
  return { response: new Response(body), bytesRead: () => bytes, isCanceled: () => canceled }
}
