/**
 * Reads the JSON of an answer from a server that may be broken or hostile. Stops reading beyond the limit.
 *
 * @returns undefined if the answer is longer
 * @throws SyntaxError, or the connection's error
 */
export async function boundedJson({ body }: Pick<Response, 'body'>, bytesMax: number): Promise<unknown> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.byteLength
    if (bytes > bytesMax) return undefined
    chunks.push(chunk)
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8'))
}
